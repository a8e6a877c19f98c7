/** What the last run of a task reported and changed, why it was not accepted (files, checks with their output), and what happens next. */
import { serverNowMs } from '../../api/client.js'
import type { TaskDetail } from '../../api/types.js'
import { reasonText } from '../../model/board.js'
import { oneLine } from '../../model/text.js'
import { duration, plainTimes } from '../../model/time.js'
import { UntrustedText } from '../../parts/untrusted-text.js'
import { ChangesOf } from './changes-of.js'
import type { Comments } from './diff-view.js'

type Failure = NonNullable<TaskDetail['failure']>

interface TaskReasonsProps {
  readonly task: TaskDetail
  /** For the lines of the diff; undefined: no run would get them. */
  readonly comments: Comments | undefined
}

export function TaskReasons({ task, comments }: TaskReasonsProps) {
  const { status, failure, result, changes, nextStep } = task
  return (
    <div className="space-y-3">
      {failure !== null && <WhyNot failure={failure} />}
      {result !== null && (
        <section>
          <h3 className="font-semibold">What the agent reported</h3>
          <UntrustedText text={result} />
        </section>
      )}
      {changes !== null && <ChangesOf changes={changes} comments={comments} />}
      {status !== 'done' && (
        <section>
          <h3 className="font-semibold">Next</h3>
          <p>
            <bdi>{oneLine(plainTimes(nextStep.text, serverNowMs()), 500)}</bdi>
          </p>
        </section>
      )}
    </div>
  )
}

function WhyNot({ failure: { agent, reason, files, checks } }: { readonly failure: Failure }) {
  return (
    <section>
      <h3 className="font-semibold">
        The last run of <bdi>{oneLine(agent, 60)}</bdi> was not accepted
      </h3>
      {files.length + checks.length === 0 ? (
        <UntrustedText text={reasonText(reason, serverNowMs())} />
      ) : (
        <ul className="space-y-2">
          {files.map(({ path, problem }) => (
            <li key={path}>
              <bdi className="font-mono text-xs break-all">{oneLine(path, 300)}</bdi> {oneLine(problem, 200)}
            </li>
          ))}
          {checks.map((check) => (
            <li key={check.check}>
              <bdi className="font-mono text-xs break-all">{oneLine(check.check, 300)}</bdi>{' '}
              <span className="text-bad">{oneLine(check.problem, 200)}</span>{' '}
              <span className="text-ink-3">after {duration(check.durationMs)}</span>
              {check.output === '' ? (
                <p className="text-sm text-ink-3">It printed nothing.</p>
              ) : (
                <Scrolled name={`Output of ${oneLine(check.check, 80)}`} toEnd>
                  <UntrustedText text={check.output} mono fold="long" />
                </Scrolled>
              )}
              {check.note !== null && <p className="mt-1 text-sm text-ink-2">{oneLine(check.note, 500)}</p>}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

interface ScrolledProps {
  readonly name: string
  /** Whether the end is shown first. */
  readonly toEnd?: boolean
  readonly children: React.ReactNode
}

function Scrolled({ name, toEnd = false, children }: ScrolledProps) {
  const show = (node: HTMLElement | null) => {
    if (toEnd && node !== null) node.scrollTop = node.scrollHeight
  }
  return (
    <div
      ref={show}
      className="mt-1 max-h-56 overflow-auto rounded border border-line bg-sunk px-2 py-1"
      tabIndex={0}
      role="group"
      aria-label={name}
    >
      {children}
    </div>
  )
}
