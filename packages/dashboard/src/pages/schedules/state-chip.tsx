/** Marks a schedule that is paused or whose file is invalid. */
import type { Schedule } from '../../api/types.js'
import { stateOf } from '../../model/schedule.js'
import { Chip } from '../../parts/status.js'

export function StateChip({ schedule }: { readonly schedule: Schedule }) {
  const state = stateOf(schedule)
  if (state === 'paused') return <Chip tone="wait">paused</Chip>
  if (state === 'failed') return <Chip tone="bad">invalid file</Chip>
  return schedule.problem === null ? null : <Chip tone="bad">newest version invalid</Chip>
}
