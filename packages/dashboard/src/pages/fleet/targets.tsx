/** Worker targets: how busy they are, and their workers. */
import { Link } from '@tanstack/react-router'
import type { Agent, Worker } from '../../api/types.js'
import type { Target } from '../../model/fleet.js'
import { count, oneLine, plural } from '../../model/text.js'
import { msOf } from '../../model/time.js'
import { RecentChanges } from './recent-changes.js'
import { RecentTurns } from './recent-turns.js'
import { Section } from '../../frame/page.js'
import { Chip } from '../../parts/status.js'
import { Ago, useNow } from '../../parts/time.js'
import { useWide } from '../../parts/wide.js'

// A worker reports every few seconds.
const silentMs = 60_000
const shownMax = 30

interface TargetsProps {
  readonly project: string
  readonly targets: readonly Target[]
  readonly agents: readonly Agent[]
  /** The workers are not read yet. */
  readonly isPending: boolean
}

export function Targets({ project, targets, agents, isPending }: TargetsProps) {
  const isWide = useWide()
  const recent = (
    <>
      <Section title="Last turn per agent">
        <RecentTurns project={project} agents={agents} />
      </Section>
      <RecentChanges project={project} />
    </>
  )
  if (isWide)
    return (
      <div className="grid max-h-[40%] shrink-0 grid-cols-3 items-start gap-3 overflow-auto min-[1240px]:block min-[1240px]:max-h-none min-[1240px]:w-64 min-[1240px]:space-y-3">
        <Section title="Workers and targets">
          <List project={project} targets={targets} isPending={isPending} />
        </Section>
        {recent}
      </div>
    )
  // On a small window agents come first.
  return (
    <details className="panel max-h-[50%] shrink-0 overflow-auto">
      <summary className="px-3 py-1.5 font-semibold">Workers, last turns and changes</summary>
      <List project={project} targets={targets} isPending={isPending} />
      {recent}
    </details>
  )
}

function List({ project, targets, isPending }: Omit<TargetsProps, 'agents'>) {
  return (
    <>
      <ul className="divide-y divide-line">
        {targets.slice(0, shownMax).map((target) => (
          <li key={target.name} className="px-3 py-2">
            <div className="flex items-baseline gap-2">
              <Link
                to="/p/$project/fleet"
                params={{ project }}
                search={{ target: target.name }}
                className="link min-w-0 flex-1 truncate font-medium"
              >
                <bdi>{oneLine(target.name, 80)}</bdi>
              </Link>
              <span className="text-sm whitespace-nowrap text-ink-2">
                {count(target.active)} of {plural(target.agents, 'agent')} busy
              </span>
            </div>
            <div className="flex items-baseline justify-between gap-2 text-sm text-ink-2">
              {isPending ? <span>…</span> : <Workers workers={target.workers} isNeeded={target.active > 0} />}
              <span className="whitespace-nowrap">{target.queued > 0 ? `${count(target.queued)} queued` : ''}</span>
            </div>
          </li>
        ))}
      </ul>
      {targets.length > shownMax && (
        <p className="label px-3 py-1">and {plural(targets.length - shownMax, 'more target')}</p>
      )}
    </>
  )
}

function Workers({
  workers,
  isNeeded,
}: {
  readonly workers: readonly Worker[] | undefined
  readonly isNeeded: boolean
}) {
  const now = useNow()
  if (workers === undefined) return <span className="text-ink-3">this server does not report workers</span>
  const alive = workers.filter((worker) => now - (msOf(worker.seen_at) ?? 0) < silentMs)
  const places = alive.reduce((sum, worker) => sum + (worker.concurrency ?? 0), 0)
  const free = alive.reduce((sum, worker) => sum + (worker.free ?? 0), 0)
  if (alive.length === 0) {
    const [last] = workers.toSorted((one, other) => (msOf(other.seen_at) ?? 0) - (msOf(one.seen_at) ?? 0))
    return (
      <span>
        <Chip tone={isNeeded ? 'bad' : 'rest'}>no worker</Chip>{' '}
        {last !== undefined && (
          <span className="text-xs">
            last <Ago at={last.seen_at} />
          </span>
        )}
      </span>
    )
  }
  return (
    <span title={alive.map((worker) => oneLine(worker.worker_id, 80)).join('\n')}>
      {plural(alive.length, 'worker')}
      {places > 0 && `, ${free} of ${places} free`}
    </span>
  )
}
