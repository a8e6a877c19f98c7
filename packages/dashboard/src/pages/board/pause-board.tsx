/** Pauses and resumes the whole board. A pause starts no new run; runs that are open continue. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { pauseBoard } from '../../api/mutations.js'
import type { Board } from '../../api/queries.js'
import { oneLine } from '../../model/text.js'
import { useOnce } from '../../parts/once.js'
import { toast } from '../../parts/toast.js'

/** `paused`: undefined while the board is loading. */
export function PauseBoard({
  paused = null,
  isOff,
}: {
  readonly paused: Board['paused'] | undefined
  readonly isOff: boolean
}) {
  const client = useQueryClient()
  const change = async (isPaused: boolean) => {
    await pauseBoard(isPaused)
    await client.invalidateQueries({ queryKey: ['board'] })
  }
  const toggle = useMutation({
    mutationFn: change,
    onSuccess: (_, isPaused) =>
      toast(isPaused ? 'The board is paused: no new run starts' : 'The board is resumed', () => change(!isPaused)),
    onError: (error) => toast(oneLine(error.message, 300)),
  })
  const once = useOnce()
  return (
    <button
      type="button"
      className="button"
      aria-keyshortcuts="p"
      title={paused === null ? 'No new run starts; open runs continue (p)' : 'Ready tasks are dispatched again (p)'}
      disabled={isOff || toggle.isPending}
      onClick={() => once(() => toggle.mutateAsync(paused === null))}
    >
      {paused === null ? 'Pause' : 'Resume'}
    </button>
  )
}
