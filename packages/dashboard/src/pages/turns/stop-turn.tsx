/**
 * Stops a turn after a confirmation. The turn ends at once with `canceled`; the server rejects later writes of its
 * worker.
 */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { stopTurn } from '../../api/mutations.js'
import { oneLine } from '../../model/text.js'
import { Dialog } from '../../parts/dialog.js'

export function StopTurn({ project, turn }: { readonly project: string; readonly turn: string }) {
  const [isConfirming, setConfirming] = useState(false)
  const [reason, setReason] = useState('')
  const client = useQueryClient()
  const stop = useMutation({
    mutationFn: (why: string) => stopTurn(project, turn, why),
    onSuccess: () => setConfirming(false),
    onSettled: () => client.invalidateQueries({ queryKey: ['turn', project, turn] }),
  })
  return (
    <>
      <button type="button" className="button text-bad" aria-keyshortcuts="s" onClick={() => setConfirming(true)}>
        Stop…
      </button>
      {isConfirming && (
        <Dialog title="Stop this turn?" name="Stop this turn" close={() => setConfirming(false)}>
          <form
            className="space-y-3"
            onSubmit={(event) => {
              event.preventDefault()
              stop.mutate(reason === '' ? 'stopped from the dashboard' : reason)
            }}
          >
            <p>The turn ends at once as canceled, and so do its children.</p>
            <input
              className="field w-full"
              value={reason}
              onChange={(event) => setReason(event.target.value)}
              aria-label="Reason"
              placeholder="reason (optional)"
              maxLength={500}
            />
            <p role="alert" className="min-h-5 text-sm text-bad">
              {stop.error === null ? '' : oneLine(stop.error.message, 200)}
            </p>
            <div className="flex justify-end gap-2">
              <button type="button" className="button" onClick={() => setConfirming(false)}>
                Keep running
              </button>
              <button type="submit" className="button text-bad" disabled={stop.isPending}>
                Stop turn
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  )
}
