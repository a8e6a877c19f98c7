/** Chooses an action for the selected rows, shows what it will and will not change, runs it with its progress, and lists the result of each row. */
import { useQuery } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import type { Agent } from '../../api/types.js'
import { count, plural } from '../../model/text.js'
import { random } from '../../ports/random.js'
import { Dialog } from '../../parts/dialog.js'
import { Failure } from '../../parts/query-state.js'
import { toast } from '../../parts/toast.js'
import { AgentField, PriorityField } from '../../parts/work-fields.js'
import { linesWith, runInParts, type BulkAction, type BulkInput, type BulkLine, type BulkPorts } from './bulk.js'
import { Lines } from './bulk-lines.js'

interface BulkDialogProps {
  readonly project: string
  /** `turn` or `task`. */
  readonly noun: string
  readonly actions: readonly BulkAction[]
  readonly ports: BulkPorts
  /** The agents that tasks can be given to. */
  readonly agents?: readonly Agent[]
  readonly close: () => void
  /** Something was changed. */
  readonly changed: () => void
}

// Stays in view below a long list.
const footClass = 'sticky -bottom-4 -mx-4 -mb-4 flex justify-end gap-2 border-t border-line bg-panel px-4 py-3'

interface Running {
  readonly lines: readonly BulkLine[]
  readonly sent: number
  readonly of: number
  readonly isOver: boolean
  readonly input: BulkInput
}

export function BulkDialog({ project, noun, actions, ports, agents = [], close, changed }: BulkDialogProps) {
  const [action, setAction] = useState(actions[0]!)
  const [value, setValue] = useState('')
  const [reason, setReason] = useState('')
  const [running, setRunning] = useState<Running>()
  const [id] = useState(() => random.id())
  const isStopped = useRef(false)
  const isClosed = useRef(false)
  const input = { action: action.name, value, reason: action.hasReason === true ? reason.trim() : '' }
  const preview = useQuery({
    queryKey: ['bulk', id, action.name, value],
    queryFn: () => ports.preview(input),
    enabled: running === undefined && (action.value === undefined || value !== ''),
    staleTime: Infinity,
    gcTime: 0,
    retry: false,
  })
  const lines = preview.data?.lines ?? []
  const willChange = linesWith(lines, 'affected')

  async function run(chosen: BulkInput, from: readonly BulkLine[], result: 'affected' | 'failed'): Promise<void> {
    const of = linesWith(from, result).length
    let sent = 0
    isStopped.current = false
    setRunning({ lines: from, sent, of, isOver: false, input: chosen })
    let done = from
    await runInParts(
      async (part) => {
        const report = await ports.run(chosen, part)
        sent += part.length
        return report
      },
      from,
      result,
      (now) => {
        done = now
        setRunning({ lines: now, sent, of, isOver: false, input: chosen })
      },
      () => isStopped.current,
    )
    setRunning((now) => now && { ...now, isOver: true })
    changed()
    if (!isClosed.current) return
    const sum = (what: BulkLine['result']) => linesWith(done, what).length
    toast(`${plural(sum('affected'), noun)} changed; ${count(sum('failed'))} failed or were not sent`)
  }
  const closeAll = () => {
    isStopped.current = true
    isClosed.current = true
    close()
  }
  const title = `Change ${plural(lines.length, noun)}`

  return (
    <Dialog isWide title={lines.length === 0 ? `Change ${noun}s` : title} name={`Change ${noun}s`} close={closeAll}>
      {running === undefined ? (
        <form
          className="space-y-3"
          onSubmit={(event) => {
            event.preventDefault()
            if (willChange.length > 0) void run(input, lines, 'affected')
          }}
        >
          <div className="flex flex-wrap gap-3">
            <label className="block min-w-48 flex-1">
              <span className="font-medium">Action</span>
              <select
                className="field mt-1 w-full"
                value={action.name}
                // The dialog opens for this choice.
                autoFocus
                onChange={(event) => {
                  setAction(actions.find(({ name }) => name === event.target.value) ?? actions[0]!)
                  setValue('')
                }}
              >
                {actions.map(({ name, label }) => (
                  <option key={name} value={name}>
                    {label}
                  </option>
                ))}
              </select>
            </label>
            {action.value === 'priority' && (
              <div className="min-w-32 flex-1">
                <PriorityField required value={value} change={(field) => setValue(field.value)} />
              </div>
            )}
            {action.value === 'agent' && (
              <div className="min-w-32 flex-1">
                <AgentField agents={agents} value={value} change={setValue} />
              </div>
            )}
            {action.hasReason === true && (
              <label className="block min-w-48 flex-1">
                <span className="font-medium">Reason</span>
                <input
                  className="field mt-1 w-full"
                  maxLength={500}
                  placeholder="optional"
                  value={reason}
                  onChange={(event) => setReason(event.target.value)}
                />
              </label>
            )}
          </div>
          <p className="text-ink-2">{action.effect}</p>
          <div aria-live="polite" className="min-h-24">
            {preview.error !== null && <Failure isFramed error={preview.error} retry={() => void preview.refetch()} />}
            {preview.isFetching && <div className="skeleton h-4 w-1/2" />}
            {preview.data !== undefined && (
              <>
                <Lines
                  project={project}
                  title={`Will change: ${plural(willChange.length, noun)}`}
                  lines={willChange}
                  isOpen
                />
                <Lines
                  project={project}
                  title={`Will not change: ${plural(lines.length - willChange.length, noun)}`}
                  lines={linesWith(lines, 'unaffected')}
                  isOpen
                />
                {preview.data.more && (
                  <p className="mt-2 text-wait">
                    More match than one request takes. These are the first {lines.length}; do the rest afterwards.
                  </p>
                )}
              </>
            )}
          </div>
          <div className={footClass}>
            <button type="button" className="button" onClick={closeAll}>
              Cancel
            </button>
            <button
              type="submit"
              className="button button-main"
              disabled={willChange.length === 0 || preview.isFetching}
            >
              {action.label.replace('…', '')}: {plural(willChange.length, noun)}
            </button>
          </div>
        </form>
      ) : (
        <Result
          project={project}
          noun={noun}
          running={running}
          stop={() => (isStopped.current = true)}
          repeat={() => void run(running.input, running.lines, 'failed')}
          undo={undoOf(actions, running)}
          run={(chosen, from) => void run(chosen, from, 'affected')}
          close={closeAll}
        />
      )}
    </Dialog>
  )
}

/** The action that takes the finished one back, if there is one. */
function undoOf(actions: readonly BulkAction[], { input, lines, isOver }: Running): BulkInput | undefined {
  const inverse = actions.find(({ name }) => name === input.action)?.inverse
  // The old values of a change are known, not those in between.
  const isBack = input.isUndo === true && inverse === input.action
  return inverse === undefined || isBack || !isOver || linesWith(lines, 'affected').length === 0
    ? undefined
    : { action: inverse, value: '', reason: 'undo', isUndo: true }
}

interface ResultProps {
  readonly project: string
  readonly noun: string
  readonly running: Running
  readonly stop: () => void
  readonly repeat: () => void
  readonly undo: BulkInput | undefined
  readonly run: (input: BulkInput, lines: readonly BulkLine[]) => void
  readonly close: () => void
}

function Result({ project, noun, running, stop, repeat, undo, run, close }: ResultProps) {
  const { lines, sent, of, isOver } = running
  const changed = isOver ? linesWith(lines, 'affected') : []
  const failed = linesWith(lines, 'failed')
  return (
    <div className="space-y-3">
      {!isOver && (
        <label className="block">
          <span className="text-ink-2">
            {sent} of {plural(of, noun)}
          </span>
          <progress className="block h-2 w-full" value={sent} max={of} />
        </label>
      )}
      {isOver && (
        <div role="status">
          <p className="font-medium">
            {plural(changed.length, noun)} changed
            {failed.length > 0 && <span className="text-bad">, {failed.length} failed</span>}
          </p>
          <Lines project={project} title={`Failed: ${plural(failed.length, noun)}`} lines={failed} isOpen />
          <Lines project={project} title={`Changed: ${plural(changed.length, noun)}`} lines={changed} isOpen />
          <Lines
            project={project}
            title={`Not changed: ${plural(lines.length - changed.length - failed.length, noun)}`}
            lines={linesWith(lines, 'unaffected')}
          />
        </div>
      )}
      <div className={footClass}>
        {!isOver && (
          <button type="button" className="button" onClick={stop}>
            Stop here
          </button>
        )}
        {isOver && failed.length > 0 && (
          <button type="button" className="button" onClick={repeat}>
            Send the failed again
          </button>
        )}
        {undo !== undefined && (
          <button type="button" className="button" aria-keyshortcuts="u" onClick={() => run(undo, changed)}>
            Undo
          </button>
        )}
        {isOver && (
          <button type="button" className="button button-main" autoFocus onClick={close}>
            Close
          </button>
        )}
      </div>
    </div>
  )
}
