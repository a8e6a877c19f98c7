/** A view in numbers: audit, marks with their meaning, sources with their leaders. */
import { Link } from '@tanstack/react-router'
import type { Sensor, SourceStats, ViewStats } from '../../api/types.js'
import { bytes, count, oneLine, plural } from '../../model/text.js'
import { agoMs } from '../../model/time.js'
import { markMeanings } from './marks.js'
import { Section } from '../../frame/page.js'
import { Chip } from '../../parts/status.js'
import { useNow } from '../../parts/time.js'

interface FactsProps {
  readonly stats: ViewStats
  readonly sessions: readonly Sensor[]
  /** Undefined if not reported. */
  readonly blindSpots: number | undefined
  /** The selected source, if there are several. */
  readonly chosen: string | undefined
}

export function ViewFacts({ stats, sessions, blindSpots, chosen }: FactsProps) {
  const sources = Object.entries(stats.sources ?? {})
  return (
    <div className="space-y-3">
      <Section title="Contents">
        <dl className="grid grid-cols-2 gap-y-1 px-3 py-2 text-sm">
          <Fact name="Files">{count(stats.total_files)}</Fact>
          <Fact name="Folders">{count(stats.total_directories)}</Fact>
          <Fact name="Size">{bytes(stats.total_size)}</Fact>
          <Fact name="Last update">
            {stats.staleness_seconds === null ? 'never' : agoMs(stats.staleness_seconds * 1_000)}
          </Fact>
          <Fact name="Last audit">
            <Audit stats={stats} />
          </Fact>
          <Fact name="Audits">{count(stats.audit_cycle_count)}</Fact>
        </dl>
        {stats.full && (
          <p className="px-3 pb-2 text-sm text-bad">
            The view is full: it rejected entries, so the tree is incomplete.
          </p>
        )}
      </Section>
      <Section title="Marks">
        <dl className="space-y-2 px-3 py-2 text-sm">
          <Mark name="suspect" tone="wait" number={stats.suspect_file_count} means={markMeanings.suspect} />
          <Mark name="blind spot" tone="person" number={blindSpots} means={markMeanings.blind} />
          <Mark
            name="tombstone"
            tone="rest"
            number={stats.tombstone_count ?? 0}
            means="A remembered deletion, which older scans cannot undo."
          />
        </dl>
      </Section>
      <Section title="Sources and leaders">
        {sources.length === 0 && sessions.length === 0 && (
          <p className="px-3 py-2 text-ink-3">No sensor is connected.</p>
        )}
        <ul className="divide-y divide-line">
          {(sources.length > 0 ? sources : sourcesOf(sessions)).map(([id, source]) => (
            <Source
              key={id}
              id={id}
              stats={source}
              sessions={sessions.filter((session) => (session.source_id ?? id) === id)}
              isChosen={id === chosen}
              isChoice={sources.length > 1}
            />
          ))}
        </ul>
      </Section>
    </div>
  )
}

const sourcesOf = (sessions: readonly Sensor[]): [string, undefined][] =>
  [...new Set(sessions.map((session) => session.source_id ?? 'source'))].map((id) => [id, undefined])

function Audit({ stats }: { readonly stats: SourceStats }) {
  const now = useNow()
  if (stats.is_auditing) return <Chip tone="go">running</Chip>
  return <>{stats.last_audit_finished_at === null ? 'none yet' : agoMs(now - stats.last_audit_finished_at * 1_000)}</>
}

interface MarkProps {
  readonly name: string
  readonly tone: 'wait' | 'person' | 'rest'
  /** Undefined if not reported. */
  readonly number: number | undefined
  readonly means: string
}

function Mark({ name, tone, number, means }: MarkProps) {
  return (
    <div>
      <dt className="flex items-center gap-2">
        <Chip tone={tone}>{name}</Chip>
        <span className="font-medium">{number === undefined ? '–' : count(number)}</span>
      </dt>
      <dd className="text-xs text-ink-2">{means}</dd>
    </div>
  )
}

interface SourceProps {
  readonly id: string
  readonly stats: SourceStats | undefined
  readonly sessions: readonly Sensor[]
  readonly isChosen: boolean
  readonly isChoice: boolean
}

function Source({ id, stats, sessions, isChosen, isChoice }: SourceProps) {
  return (
    <li className="px-3 py-2 text-sm">
      <div className="flex items-center gap-2">
        {isChoice ? (
          <Link
            from="/p/$project/workspace"
            to="."
            search={(old) => ({ ...old, source: id })}
            className="link min-w-0 flex-1 truncate font-medium"
            aria-current={isChosen}
          >
            <bdi>{oneLine(id, 80)}</bdi>
          </Link>
        ) : (
          <bdi className="min-w-0 flex-1 truncate font-medium">{oneLine(id, 80)}</bdi>
        )}
        {stats?.ready === false && <Chip tone="wait">first snapshot running</Chip>}
        {stats !== undefined && <span className="text-xs text-ink-3">{plural(stats.total_files, 'file')}</span>}
      </div>
      <ul>
        {sessions.map((session) => (
          <li key={session.session_id} className="flex items-center gap-2 text-ink-2">
            <bdi className="min-w-0 flex-1 truncate" title={oneLine(session.source_uri ?? '')}>
              {oneLine(session.agent_id ?? session.session_id, 80)}
            </bdi>
            <Chip tone={session.role === 'leader' ? 'go' : 'rest'}>{oneLine(session.role, 20)}</Chip>
            <span className="text-xs text-ink-3">heard {agoMs(session.silent_seconds * 1_000)}</span>
          </li>
        ))}
        {sessions.length === 0 && <li className="text-bad">no sensor</li>}
      </ul>
    </li>
  )
}

function Fact({ name, children }: { readonly name: string; readonly children: React.ReactNode }) {
  return (
    <>
      <dt className="text-ink-3">{name}</dt>
      <dd className="text-right">{children}</dd>
    </>
  )
}
