/** One agent per row: status, activity, what it waits for, deadline. Two lines on a narrow window. */
import { Link } from '@tanstack/react-router'
import { memo } from 'react'
import type { Agent } from '../../api/types.js'
import { activityOf, waitsFor, type Assessment } from '../../model/fleet.js'
import { appearanceOf, restWord } from '../../model/status.js'
import { oneLine, shortNames } from '../../model/text.js'
import { Glyph } from '../../parts/glyph.js'
import { Chip, Status, toneText } from '../../parts/status.js'
import { NarrowRow, type Columns } from '../../parts/rows.js'
import { Ago, Countdown } from '../../parts/time.js'

export const agentColumns: Columns = {
  className:
    'grid grid-cols-[minmax(108px,1.4fr)_104px_minmax(96px,1.2fr)_minmax(92px,1fr)_88px_44px_minmax(90px,0.9fr)] items-center gap-x-2 px-3 min-[1240px]:gap-x-3',
  titles: ['Agent', 'Status', 'Activity', 'Waits for', 'Time left', 'Queue', 'Last turn'],
  alignedRight: ['Time left', 'Queue'],
}

interface RowProps {
  readonly project: string
  readonly agent: Agent
  readonly assessment: Assessment
  /** It asked a person something. */
  readonly isAsking: boolean
  readonly isWide: boolean
}

export const AgentRow = memo(({ project, agent, assessment, isAsking, isWide }: RowProps) => {
  const head = agent.state
  const status = agent.status === 'retired' ? 'retired' : (head?.status ?? restWord)
  const word = assessment.condition === 'stuck' ? 'stuck' : status
  const deadline = head?.resume_deadline ?? head?.turn_deadline
  const doing = assessment.why ?? activityOf(agent)
  const waits = waitsFor(agent)
  const tool = waits === '' ? head?.current_tool : null
  const activity = (
    <span
      className={assessment.why === undefined ? 'truncate text-ink-2' : 'truncate text-bad'}
      title={oneLine(`${doing} ${tool ?? ''}`)}
    >
      {doing}
      {tool !== null && tool !== undefined && <bdi className="ml-1.5 font-mono text-xs">{oneLine(tool, 60)}</bdi>}
    </span>
  )
  const name = <AgentName project={project} agent={agent} />
  if (!isWide)
    return (
      <NarrowRow name={name} status={word}>
        <span role="cell" className="flex min-w-0 flex-1 truncate">
          {activity}
        </span>
        {(isAsking || waits !== '') && (
          <span role="cell" className="min-w-0 truncate font-mono text-xs text-ink-2">
            {isAsking ? <NeedsYou project={project} /> : <bdi>{oneLine(waits, 40)}</bdi>}
          </span>
        )}
        <span role="cell">
          <Countdown until={deadline} />
        </span>
      </NarrowRow>
    )
  // Its question to a person stays visible.
  const isReasonWide = assessment.why !== undefined && !isAsking
  return (
    <div className={`${agentColumns.className} h-full`}>
      <span role="cell" className="truncate font-medium">
        {name}
      </span>
      <span role="cell" className="flex min-w-0">
        <Status word={word} />
      </span>
      <span role="cell" className={isReasonWide ? 'col-span-2 flex min-w-0' : 'flex min-w-0'}>
        {activity}
      </span>
      <span
        role="cell"
        className={isReasonWide ? 'sr-only' : 'min-w-0 truncate font-mono text-xs text-ink-2'}
        title={oneLine(waits)}
      >
        {isAsking ? <NeedsYou project={project} /> : <bdi>{oneLine(waits, 60)}</bdi>}
      </span>
      <span role="cell" className="text-right text-sm">
        <Countdown until={deadline} />
      </span>
      <span role="cell" className={`text-right ${agent.queued === 0 ? 'text-ink-3' : ''}`}>
        {agent.queued >= 1_000 ? '999+' : agent.queued}
      </span>
      <span role="cell" className="min-w-0 truncate text-sm">
        <LastTurn project={project} agent={agent} />
      </span>
    </div>
  )
})

function NeedsYou({ project }: { readonly project: string }) {
  return (
    <Link to="/p/$project/needs-you" params={{ project }} search={{}} className="font-sans hover:underline">
      <Chip tone="person">
        <Glyph shape="hand" /> needs you
      </Chip>
    </Link>
  )
}

function AgentName({ project, agent }: { readonly project: string; readonly agent: Agent }) {
  const turn = agent.state?.active_agent_turn_id
  const name = (
    <bdi title={oneLine(`${agent.agent_id} · target ${agent.worker_target}`)}>
      {oneLine(shortNames(agent.agent_id), 120)}
    </bdi>
  )
  return turn === null || turn === undefined ? (
    <Link to="/p/$project/turns" params={{ project }} search={{ agent: agent.agent_id }} className="hover:underline">
      {name}
    </Link>
  ) : (
    <Link to="/p/$project/turns/$turn" params={{ project, turn }} className="hover:underline">
      {name}
    </Link>
  )
}

function LastTurn({ project, agent }: { readonly project: string; readonly agent: Agent }) {
  const last = agent.last_turn
  if (last === undefined || last === null) return <span className="text-ink-3">–</span>
  const appearance = appearanceOf(last.outcome)
  return (
    <Link
      to="/p/$project/turns/$turn"
      params={{ project, turn: last.agent_turn_id }}
      className="flex items-center gap-2 hover:underline"
      title={appearance.word}
    >
      <span className={toneText[appearance.tone]}>
        <Glyph shape={appearance.shape} />
      </span>
      <span className="sr-only">{appearance.word}</span>
      <span className="truncate text-ink-2">
        <Ago at={last.ended_at} />
      </span>
    </Link>
  )
}
