/** What can be done with the trail of an ended turn: replay it, fork it at a step, export it. */
import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { forkTurn } from '../../api/mutations.js'
import { exportTurn, replayQuery } from '../../api/queries.js'
import type { Replay } from '../../api/types.js'
import { oneLine } from '../../model/text.js'
import { saveText } from '../../ports/download.js'
import { random } from '../../ports/random.js'
import { Dialog } from '../../parts/dialog.js'
import { QueryState } from '../../parts/query-state.js'
import { Line } from '../../parts/untrusted-text.js'
import { FormEnd } from '../../parts/work-fields.js'

interface TrailProps {
  readonly project: string
  readonly turn: string
}

export function TrailTools({ project, turn }: TrailProps) {
  const [shown, setShown] = useState<'replay' | 'fork'>()
  const download = useMutation({
    mutationFn: () => exportTurn(project, turn),
    onSuccess: (trail) => saveText(`trail-${turn}.json`, JSON.stringify(trail)),
  })
  const close = () => setShown(undefined)
  return (
    <>
      <button type="button" className="button" onClick={() => setShown('replay')}>
        Replay
      </button>
      <button type="button" className="button" onClick={() => setShown('fork')}>
        Fork…
      </button>
      <button
        type="button"
        className="button"
        disabled={download.isPending}
        onClick={() => download.mutate()}
        title={download.error === null ? undefined : oneLine(download.error.message, 200)}
      >
        {download.error === null ? 'Export' : 'Export failed'}
      </button>
      {shown === 'replay' && (
        <Dialog title="Replay" name="Replay" close={close}>
          <ReplayReport project={project} turn={turn} />
        </Dialog>
      )}
      {shown === 'fork' && (
        <Dialog title="Fork this turn" name="Fork this turn" close={close}>
          <ForkForm project={project} turn={turn} close={close} />
        </Dialog>
      )}
    </>
  )
}

const words: Readonly<Record<Replay['steps'][number]['result'], string>> = {
  same: 'the same',
  differs: 'differs',
  not_reached: 'not reached',
}

function ReplayReport({ project, turn }: TrailProps) {
  const replay = useQuery(replayQuery(project, turn))
  return (
    <QueryState query={replay}>
      {(report) => (
        <div className="space-y-3">
          <p role="status" className={report.result === 'exact' ? 'font-semibold' : 'font-semibold text-bad'}>
            {report.result === 'exact' ? 'Exact: the replay gave the same deliverable.' : 'The replay differs.'}
          </p>
          <p className="text-sm text-ink-2">Compared: {report.compared}.</p>
          {report.steps.length > 0 && (
            <ol className="text-sm">
              {report.steps.map(({ step, title, result }) => (
                <li key={step} className="flex gap-2 py-0.5">
                  <span className="w-14 shrink-0 text-ink-3">step {step}</span>
                  <span className="min-w-0 flex-1 truncate">
                    <Line text={title} most={80} />
                  </span>
                  <span className={result === 'differs' ? 'text-bad' : 'text-ink-3'}>{words[result]}</span>
                </li>
              ))}
            </ol>
          )}
          {report.difference !== null && (
            <dl className="text-sm">
              <dt className="label">First difference</dt>
              <dd>
                {report.difference.step === null ? '' : `Step ${report.difference.step}: `}
                <Line text={report.difference.what} most={200} />
              </dd>
              <dt className="label">Recorded</dt>
              <dd className="font-mono break-words">
                <Line text={report.difference.recorded} most={2_000} />
              </dd>
              <dt className="label">Replayed</dt>
              <dd className="font-mono break-words">
                <Line text={report.difference.replayed} most={2_000} />
              </dd>
            </dl>
          )}
        </div>
      )}
    </QueryState>
  )
}

/** One idempotency key per form: a request that is sent again after a lost response starts no second turn. */
function ForkForm({ project, turn, close }: TrailProps & { readonly close: () => void }) {
  const replay = useQuery(replayQuery(project, turn))
  const navigate = useNavigate()
  const [key] = useState(() => random.id())
  const [at, setAt] = useState<number>()
  const [instruction, setInstruction] = useState('')
  const [message, setMessage] = useState('')
  const fork = useMutation({
    mutationFn: (body: Parameters<typeof forkTurn>[2]) => forkTurn(project, turn, body, key),
    onSuccess: ({ agent_turn_id: id }) =>
      navigate({ to: '/p/$project/turns/$turn', params: { project, turn: id } }).then(close),
  })
  return (
    <QueryState query={replay}>
      {(report) => {
        const edit = { ...(instruction.trim() !== '' && { instruction }), ...(message.trim() !== '' && { message }) }
        return (
          <form
            className="space-y-3"
            onSubmit={(event) => {
              event.preventDefault()
              fork.mutate({ at: at ?? report.first_step, ...(Object.keys(edit).length > 0 && { edit }) })
            }}
          >
            <p>
              A new turn begins with the cards up to this step, and continues from there. This turn does not change.
            </p>
            <label className="block">
              <span className="font-medium">From step</span>
              <select
                className="field mt-1 w-full"
                value={at ?? report.first_step}
                onChange={(event) => setAt(Number(event.target.value))}
              >
                <option value={report.first_step}>{report.first_step}: before the next step</option>
                {report.steps.map(({ step, title }) => (
                  <option key={step} value={step}>
                    {step}: {oneLine(title, 60)}
                  </option>
                ))}
              </select>
            </label>
            <label className="block">
              <span className="font-medium">Another instruction (optional)</span>
              <textarea
                className="field mt-1 w-full"
                rows={3}
                value={instruction}
                onChange={(event) => setInstruction(event.target.value)}
                maxLength={100_000}
              />
            </label>
            <label className="block">
              <span className="font-medium">Message to the agent (optional)</span>
              <textarea
                className="field mt-1 w-full"
                rows={2}
                value={message}
                onChange={(event) => setMessage(event.target.value)}
                maxLength={8_000}
              />
            </label>
            <FormEnd error={fork.error} name="Start the fork" isBusy={fork.isPending} close={close} />
          </form>
        )
      }}
    </QueryState>
  )
}
