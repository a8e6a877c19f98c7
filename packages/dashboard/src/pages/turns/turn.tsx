/** One turn: waterfall, transcript, timeline, parent and children, files, interventions, and the button that stops it. */
import { dollars, turnLimits, turnTokens } from '@bellwether/protocol/spending'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { spansQuery, turnQuery } from '../../api/queries.js'
import type { TurnDetail } from '../../api/types.js'
import { compact } from '../../model/board.js'
import { oneLine, plural, shortId, textOf } from '../../model/text.js'
import { duration, msOf } from '../../model/time.js'
import { contextText, nearestOf, taskOfSession, whyOf } from '../../model/turn.js'
import { BudgetBar } from '../../parts/budget-bar.js'
import { CopyId } from '../../parts/copy.js'
import { CopyTurn } from './copy-turn.js'
import { Lineage } from './lineage.js'
import { Page, Section } from '../../frame/page.js'
import { Line } from '../../parts/untrusted-text.js'
import { QueryState } from '../../parts/query-state.js'
import { Status } from '../../parts/status.js'
import { RunAgain } from './run-turn.js'
import { StopTurn } from './stop-turn.js'
import { At, Countdown, useNow } from '../../parts/time.js'
import { Timeline } from './timeline.js'
import { Interventions } from './interventions.js'
import { Messages } from './messages.js'
import { Transcript } from './transcript.js'
import { TrailTools } from './trail.js'
import { TurnChanges } from './turn-changes.js'
import { TurnFiles } from './turn-files.js'
import { Waterfall } from './waterfall.js'

export function TurnPage() {
  const { project, turn: id } = useParams({ from: '/p/$project/turns/$turn' })
  const turn = useQuery(turnQuery(project, id))
  // Read together: the height of the waterfall follows from its spans, and nothing below may move when they arrive.
  const spans = useQuery(spansQuery(project, id, undefined))
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
      scrolls
    >
      <QueryState query={spans.isPending ? { ...turn, data: undefined } : turn}>
        {(data) => <TurnView project={project} turn={data} />}
      </QueryState>
    </Page>
  )
}

function Tools({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  return (
    <>
      {turn.ended_at === null ? (
        <StopTurn project={project} turn={turn.agent_turn_id} />
      ) : (
        <>
          {turn.message_type !== 'ui_action' && (
            <TrailTools key={`trail-${turn.agent_turn_id}`} project={project} turn={turn.agent_turn_id} />
          )}
          <RunAgain key={turn.agent_turn_id} project={project} turn={turn} />
        </>
      )}
      <CopyTurn project={project} turn={turn} />
    </>
  )
}

function TurnView({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  return (
    <div className="p-3">
      {/* Not in the frame: there they would arrive after the page and move it where they need a second row. */}
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <Tools project={project} turn={turn} />
      </div>
      <Summary project={project} turn={turn} />
      <div className="mt-3">
        <Waterfall key={turn.agent_turn_id} project={project} turn={turn} />
      </div>
      <div className="mt-3 grid grid-cols-1 items-start gap-3 lg:grid-cols-[minmax(0,1fr)_320px]">
        <div className="space-y-3">
          <Transcript key={turn.agent_turn_id} project={project} turn={turn} />
          <Section title="Parent and children">
            <Lineage key={`lineage-${turn.agent_turn_id}`} project={project} turn={turn} />
          </Section>
          <Section title="Timeline">
            <Timeline project={project} turn={turn} />
          </Section>
          <div id="changes" className="scroll-mt-3">
            <TurnChanges key={`changes-${turn.agent_turn_id}`} project={project} turn={turn} />
          </div>
        </div>
        <div className="space-y-3">
          <Section title="Messages">
            <Messages key={turn.agent_turn_id} project={project} turn={turn} />
          </Section>
          <Section title="Files">
            <TurnFiles project={project} files={turn.files} isCut={turn.files_truncated} />
          </Section>
          <Section title="Interventions">
            <Interventions interventions={turn.interventions} />
          </Section>
        </div>
      </div>
    </div>
  )
}

function Summary({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  const now = useNow()
  const { total_tokens: tokens, cost_micros: micros } = turn.usage
  const use = nearestOf(turn.budget)
  const started = msOf(turn.started_at)
  const isOver = turn.ended_at !== null
  const why = whyOf(turn)
  const instruction = turn.context_cards.find(({ type }) => type === 'task.instruction')
  const delivered = why === null ? textOf(turn.deliverable?.content) : ''
  const spent = [tokens === 0 ? null : turnTokens(turn.usage), turnLimits(turn.budget)].filter((text) => text !== null)
  return (
    <dl className="panel grid grid-cols-2 gap-x-6 gap-y-2 px-3 py-2 sm:grid-cols-3 lg:grid-cols-6">
      <Fact name="Instruction" all>
        <Line text={textOf(instruction?.content).replace(/^#+ /, '') || '–'} most={400} />
      </Fact>
      {delivered !== '' && (
        <Fact name="Deliverable" all>
          <Line text={delivered} most={400} />
        </Fact>
      )}
      <Fact name="Status">
        <Status word={turn.status} />
      </Fact>
      <Fact name="Agent">
        <Link to="/p/$project/turns" params={{ project }} search={{ agent: turn.agent_id }} className="link">
          <bdi>{oneLine(turn.agent_id, 80)}</bdi>
        </Link>
      </Fact>
      <Fact name="Queued">
        <At at={turn.created_at} />
      </Fact>
      <Fact name="Duration">{started === null ? 'not started' : duration((msOf(turn.ended_at) ?? now) - started)}</Fact>
      <Fact name={isOver ? 'Ended' : 'Time left'}>
        {isOver ? <At at={turn.ended_at} /> : <Countdown until={turn.resume_deadline ?? turn.turn_deadline} />}
      </Fact>
      <Fact name="Tokens, cost">
        {tokens === 0 && micros === null
          ? isOver
            ? 'not reported'
            : 'none so far'
          : `${tokens === 0 ? '–' : compact(tokens)}, ${micros === null ? '–' : dollars(micros)}`}
      </Fact>
      <Fact name="Context" wide>
        <Line text={contextText(turn)} most={80} />
      </Fact>
      <Fact name="Files">
        <FilesLink turn={turn} />
      </Fact>
      <Fact name="Budget">{use === null ? 'no limit' : <BudgetBar use={use} />}</Fact>
      <Fact name="Epoch, worker deaths">
        {turn.turn_epoch ?? '–'}, {turn.deaths ?? '–'}
      </Fact>
      <Fact name="Worker">
        <Line text={turn.claimed_by ?? '–'} most={60} />
      </Fact>
      <Fact name="Trace">{turn.trace_id === null ? '–' : <CopyId id={turn.trace_id} what="trace id" />}</Fact>
      <Fact name="Correlation id">
        <Line text={turn.correlation_id ?? '–'} most={60} />
      </Fact>
      <Fact name="Session">
        <SessionOf project={project} session={turn.session_id} />
      </Fact>
      <Fact name="Channel, depth">
        <Line text={`${turn.channel_id ?? '–'}, ${turn.recursion_depth ?? 0}`} most={60} />
      </Fact>
      {turn.forked_from !== null && (
        <Fact name="Fork">
          step {turn.forked_from.step} of{' '}
          <Link
            to="/p/$project/turns/$turn"
            params={{ project, turn: turn.forked_from.agent_turn_id }}
            className="link font-mono text-xs"
          >
            {shortId(turn.forked_from.agent_turn_id)}
          </Link>
        </Fact>
      )}
      {turn.imported_from !== null && (
        <Fact name="Imported">
          <At at={turn.imported_from.imported_at} />, <Line text={turn.imported_from.imported_by} most={40} />
        </Fact>
      )}
      {why !== null && (
        <div className="col-span-full">
          <dt className="label">Reason</dt>
          <dd className="text-bad">
            <Line text={why} most={300} />
          </dd>
        </div>
      )}
      {spent.length > 0 && (
        <div className="col-span-full">
          <dt className="label">Used and limits</dt>
          {spent.map((text) => (
            <dd key={text}>{text}</dd>
          ))}
        </div>
      )}
    </dl>
  )
}

/** Leads to the changes of an ended turn, which are far below. */
function FilesLink({ turn: { files, ended_at: endedAt } }: { readonly turn: TurnDetail }) {
  const changed = files.filter(({ certainty }) => certainty !== 'claimed').length
  if (changed === 0) return files.length === 0 ? 'none known' : `${plural(files.length, 'file')} named`
  const text = `${plural(changed, 'file')} changed`
  const show = () => document.getElementById('changes')?.scrollIntoView({ block: 'start' })
  return endedAt === null ? (
    text
  ) : (
    <button type="button" className="link" onClick={show}>
      {text}
    </button>
  )
}

/** The session of a board's turn leads to its task. */
function SessionOf({ project, session }: { readonly project: string; readonly session: string | null }) {
  const task = taskOfSession(session)
  if (task === undefined) return <Line text={session ?? '–'} most={60} />
  return (
    <Link to="/p/$project/board" params={{ project }} search={{ task }} className="link">
      <bdi>task {oneLine(task, 60)}</bdi>
    </Link>
  )
}

interface FactProps {
  readonly name: string
  readonly children: React.ReactNode
  readonly wide?: boolean
  /** The whole width. */
  readonly all?: boolean
}

function Fact({ name, children, wide = false, all = false }: FactProps) {
  return (
    <div className={`min-w-0 ${all ? 'col-span-full' : wide ? 'col-span-2' : ''}`}>
      <dt className="label">{name}</dt>
      <dd className="min-h-5 truncate">{children}</dd>
    </div>
  )
}
