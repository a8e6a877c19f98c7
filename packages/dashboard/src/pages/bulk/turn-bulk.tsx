/** Stops the selected turns, or runs them again. */
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { bulkTurns } from '../../api/mutations.js'
import { turnsQueryOf, type TurnFilter } from '../../api/queries.js'
import type { BulkTurns } from '../../api/types.js'
import { random } from '../../ports/random.js'
import type { Selection } from '../../parts/selection.js'
import { BulkBar } from './bulk-bar.js'
import { BulkDialog } from './bulk-dialog.js'
import type { BulkAction, BulkInput, BulkPorts, BulkReport } from './bulk.js'

const actions: readonly BulkAction[] = [
  {
    name: 'stop',
    label: 'Stop',
    effect: 'Each turn ends at once as canceled, and so do its children. Ended turns stay as they are.',
    hasReason: true,
  },
  {
    name: 'retry',
    label: 'Run again',
    effect: 'Each ended turn is started again with the same instruction, agent and session, as a new turn.',
  },
]

interface TurnBulkProps {
  readonly project: string
  readonly filter: TurnFilter
  readonly selection: Selection
}

export function TurnBulk({ project, filter, selection }: TurnBulkProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <BulkBar selection={selection} total={null} openActions={() => setOpen(true)} />
      {isOpen && <TurnDialog {...{ project, filter, selection }} close={() => setOpen(false)} />}
    </>
  )
}

function TurnDialog({ project, filter, selection, close }: TurnBulkProps & { readonly close: () => void }) {
  const client = useQueryClient()
  // Turns that are sent again under the same id are started once.
  const [requestId] = useState(() => random.id())
  const [chosen] = useState(() => ({ filter, ids: [...selection.ids], isAll: selection.isAll }))
  const bodyOf = ({ action, reason }: BulkInput): Pick<BulkTurns, 'action' | 'reason' | 'request_id'> => ({
    action: action === 'retry' ? 'retry' : 'stop',
    ...(action === 'retry' ? { request_id: requestId } : {}),
    ...(reason === '' ? {} : { reason }),
  })
  const ports: BulkPorts = {
    async preview(input) {
      const { filter: wanted, ids, isAll } = chosen
      const rows = isAll ? { filter: turnsQueryOf(wanted) } : { turns: ids }
      return reportOf(await bulkTurns(project, { ...bodyOf(input), ...rows, dry_run: true }))
    },
    run: async (input, lines) =>
      reportOf(await bulkTurns(project, { ...bodyOf(input), turns: lines.map(({ id }) => id) })),
  }
  const changed = () => {
    void client.invalidateQueries({ queryKey: ['turns'] })
    void client.invalidateQueries({ queryKey: ['agents'] })
  }
  return (
    <BulkDialog
      project={project}
      noun="turn"
      actions={actions}
      ports={ports}
      close={() => {
        close()
        selection.clear()
      }}
      changed={changed}
    />
  )
}

const reportOf = ({ rows, more }: Awaited<ReturnType<typeof bulkTurns>>): BulkReport => ({
  more,
  lines: rows.map((row) => ({
    id: row.agent_turn_id,
    title: row.agent_id ?? '',
    status: row.status,
    result: row.result,
    reason: row.reason,
    started: row.new_turn_id,
  })),
})
