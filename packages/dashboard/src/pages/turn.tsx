/** One turn, from asking to deliverable: its line of time, its family, its files, every touch of a watchdog, and the button that stops it. */
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { boxQuery, turnQuery } from '../api/queries.js'
import type { Card, TurnDetail } from '../api/types.js'
import { compact, cost } from '../facts/board.js'
import { oneLine } from '../facts/text.js'
import { duration, msOf } from '../facts/time.js'
import { filesOf, traceOf, usageOf } from '../facts/turn.js'
import { CopyId } from '../parts/copy.js'
import { Lineage } from '../parts/lineage.js'
import { Page, Section } from '../parts/page.js'
import { Line } from '../parts/said.js'
import { Shown } from '../parts/shown.js'
import { Status } from '../parts/status.js'
import { StopTurn } from '../parts/stop-turn.js'
import { At, Countdown, useNow } from '../parts/time.js'
import { Timeline } from '../parts/timeline.js'
import { Touches } from '../parts/touches.js'

export function TurnPage() {
  const { project, turn: id } = useParams({ from: '/p/$project/turns/$turn' })
  const turn = useQuery(turnQuery(project, id))
  return (
    <Page
      title={
        <>
          <Link to="/p/$project/turns" params={{ project }} search={{}} className="link">
            Turns
          </Link>{' '}
          / <CopyId id={id} what="turn id" />
        </>
      }
      tools={turn.data?.ended_at === null && <StopTurn project={project} turn={id} />}
      scrolls
    >
      <Shown query={turn}>{(data) => <Told project={project} turn={data} />}</Shown>
    </Page>
  )
}

function Told({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  const cards = useCards(project, turn)
  const files = filesOf(turn)
  return (
    <div className="p-3">
      <Facts project={project} turn={turn} />
      <div className="mt-3 grid grid-cols-1 gap-3 lg:grid-cols-[minmax(0,1fr)_320px]">
        <Section title="What happened">
          <Timeline project={project} turn={turn} cards={cards} />
        </Section>
        <div className="space-y-3">
          <Section title="Family">
            <Lineage project={project} turn={turn} />
          </Section>
          <Section title="Files it changed">
            {files.length === 0 ? (
              <p className="px-3 py-2 text-ink-3">None known.</p>
            ) : (
              <ul className="max-h-64 overflow-auto px-3 py-2">
                {files.slice(0, 500).map((file, at) => (
                  <li key={at} className="flex gap-2 text-sm">
                    <span className="min-w-0 flex-1 font-mono text-xs">
                      <Line text={file.path} />
                    </span>
                    <span className="text-xs text-ink-3">{file.kind}</span>
                  </li>
                ))}
              </ul>
            )}
          </Section>
          <Section title="Watchdogs">
            <Touches interventions={turn.interventions} />
          </Section>
        </div>
      </div>
    </div>
  )
}

/** The turn's own cards: told with it, or read from its boxes. */
function useCards(project: string, turn: TurnDetail): readonly Card[] {
  const context = useQuery({
    ...boxQuery(project, turn.context_box_id ?? ''),
    enabled: turn.cards === undefined && typeof turn.context_box_id === 'string',
  })
  const output = useQuery({
    ...boxQuery(project, turn.output_box_id ?? '', turn.agent_turn_id),
    enabled: turn.cards === undefined && typeof turn.output_box_id === 'string',
  })
  if (turn.cards !== undefined) return turn.cards
  return [...(context.data?.cards ?? []), ...(output.data?.cards ?? [])]
}

function Facts({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  const now = useNow()
  const trace = traceOf(turn.traceparent)
  const { tokens, costMicros } = usageOf(turn.steps)
  const started = msOf(turn.started_at)
  const isOver = turn.ended_at !== null
  return (
    <dl className="panel grid grid-cols-2 gap-x-6 gap-y-2 px-3 py-2 sm:grid-cols-3 lg:grid-cols-6">
      <Fact name="Status">
        <Status word={turn.status} />
      </Fact>
      <Fact name="Agent">
        <Link to="/p/$project/turns" params={{ project }} search={{ agent: turn.agent_id }} className="link">
          <bdi>{oneLine(turn.agent_id, 80)}</bdi>
        </Link>
      </Fact>
      <Fact name="Asked">
        <At at={turn.created_at} />
      </Fact>
      <Fact name={isOver ? 'Took' : 'Has taken'}>
        {started === null ? 'not begun' : duration((msOf(turn.ended_at) ?? now) - started)}
      </Fact>
      <Fact name={isOver ? 'Ended' : 'Deadline'}>
        {isOver ? <At at={turn.ended_at} /> : <Countdown until={turn.resume_deadline ?? turn.turn_deadline} />}
      </Fact>
      <Fact name="Used">
        {compact(tokens)} tokens{costMicros > 0 && `, ${cost(costMicros)}`}
      </Fact>
      <Fact name="Epoch, attempts">
        {turn.turn_epoch ?? '–'}, {turn.attempts ?? '–'}
      </Fact>
      <Fact name="Worker">
        <Line text={turn.claimed_by ?? '–'} most={60} />
      </Fact>
      <Fact name="Trace">{trace === null ? '–' : <CopyId id={trace} what="trace id" />}</Fact>
      <Fact name="Correlation id">
        <Line text={turn.correlation_id ?? '–'} most={60} />
      </Fact>
      <Fact name="Channel">
        <Line text={turn.channel_id ?? '–'} most={60} />
      </Fact>
      <Fact name="Depth">{turn.recursion_depth ?? 0}</Fact>
    </dl>
  )
}

function Fact({ name, children }: { readonly name: string; readonly children: React.ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="label">{name}</dt>
      <dd className="min-h-5 truncate">{children}</dd>
    </div>
  )
}
