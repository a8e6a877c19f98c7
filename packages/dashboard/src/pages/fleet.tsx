/** The first page: in one line what is running, what is stuck and what needs a person; below, every agent. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useDeferredValue, useMemo, useState } from 'react'
import { agentsQuery, workersQuery } from '../api/queries.js'
import type { Agent, Agents } from '../api/types.js'
import { byUrgency, judge, standings, tally, targetsOf, type Judged, type Standing } from '../model/fleet.js'
import { count } from '../model/text.js'
import { agentHeights, AgentHead, AgentRow } from '../parts/agent-row.js'
import { Page } from '../parts/page.js'
import { Pulse } from '../parts/activity.js'
import { VirtualRows } from '../parts/rows.js'
import { Search } from '../parts/search.js'
import { Empty, Shown } from '../parts/query-state.js'
import { Targets } from '../parts/targets.js'
import { useNow } from '../parts/time.js'
import { useWide } from '../parts/wide.js'

export function FleetPage() {
  const { project } = useParams({ from: '/p/$project/fleet' })
  const { show, q, target } = useSearch({ from: '/p/$project/fleet' })
  const navigate = useNavigate({ from: '/p/$project/fleet' })
  const agents = useQuery(agentsQuery(project))
  return (
    <Page
      title="Fleet"
      tools={
        <>
          <Search
            label="Search agents"
            value={q ?? ''}
            change={(words) => void navigate({ search: (old) => ({ ...old, q: words }), replace: true })}
          />
          <ShowPicker show={show} />
          {target !== undefined && (
            <button
              type="button"
              className="button"
              onClick={() => void navigate({ search: ({ target: _target, ...rest }) => rest })}
            >
              target {target} ×
            </button>
          )}
        </>
      }
    >
      <Fleet key={project} project={project} query={agents} />
    </Page>
  )
}

function ShowPicker({ show }: { readonly show: string | undefined }) {
  const navigate = useNavigate({ from: '/p/$project/fleet' })
  return (
    <select
      className="field"
      aria-label="Show"
      value={show ?? ''}
      onChange={(event) =>
        void navigate({
          search: ({ show: _show, ...rest }) =>
            event.target.value === '' ? rest : { ...rest, show: event.target.value },
        })
      }
    >
      <option value="">all agents</option>
      {standings.map((standing) => (
        <option key={standing} value={standing}>
          {standing}
        </option>
      ))}
    </select>
  )
}

function Fleet({ project, query }: { readonly project: string; readonly query: ReturnType<typeof useQuery<Agents>> }) {
  const judged = useJudged(query.data)
  const sums = useMemo(
    () => (query.data === undefined ? undefined : tally(query.data.agents, (agent) => judged.of(agent).standing)),
    [query.data, judged],
  )
  return (
    <>
      <Pulse project={project} sums={sums} />
      <Shown
        query={query}
        isEmpty={(data) => data.agents.length === 0}
        empty={
          <Empty title="This project has no agents yet.">
            Put a file into <code>agents/</code>, or start with <code>bellwether init</code>.
          </Empty>
        }
      >
        {(data) => (
          <div className="flex min-h-0 flex-1 flex-col gap-3 p-3 min-[900px]:flex-row">
            <div className="panel flex min-h-64 min-w-0 flex-1 flex-col overflow-hidden">
              <AgentTable project={project} data={data} judged={judged} />
            </div>
            <TargetPanel project={project} agents={data.agents} judged={judged} />
          </div>
        )}
      </Shown>
    </>
  )
}

interface Judgements {
  of(agent: Agent): Judged
}

/** Judged again with every answer, and every few seconds: a deadline passes without an event. */
function useJudged(data: Agents | undefined): Judgements {
  const fewSeconds = Math.floor(useNow() / 5_000) * 5_000
  return useMemo(() => {
    const known = new WeakMap<Agent, Judged>()
    const readAtMs = data?.readAtMs ?? 0
    return {
      of(agent) {
        const found = known.get(agent) ?? judge(agent, fewSeconds, readAtMs)
        known.set(agent, found)
        return found
      },
    }
  }, [data, fewSeconds])
}

interface TableProps {
  readonly project: string
  readonly data: Agents
  readonly judged: Judgements
}

function AgentTable({ project, data, judged }: TableProps) {
  const { show, q, target } = useSearch({ from: '/p/$project/fleet' })
  const navigate = useNavigate()
  const isWide = useWide()
  const words = useDeferredValue(q ?? '').toLowerCase()
  const order = useOrder(data, judged, `${show} ${target}`)
  const shown = useMemo(() => {
    const standing = (agent: Agent): Standing => judged.of(agent).standing
    return order(data.agents).filter(
      (agent) =>
        (show === undefined || standing(agent) === show) &&
        (target === undefined || agent.worker_target === target) &&
        (words === '' ||
          [agent.agent_id, agent.worker_target, agent.state?.current_tool ?? ''].some((text) =>
            text.toLowerCase().includes(words),
          )),
    )
  }, [data, judged, order, show, target, words])
  const open = (agent: Agent) => {
    const turn = agent.state?.active_agent_turn_id ?? agent.last_turn?.agent_turn_id
    if (turn === undefined)
      void navigate({ to: '/p/$project/turns', params: { project }, search: { agent: agent.agent_id } })
    else void navigate({ to: '/p/$project/turns/$turn', params: { project, turn } })
  }
  if (shown.length === 0) return <Empty title="No agent fits.">Search for something else, or show all agents.</Empty>
  return (
    <>
      <div className="min-h-0 flex-1">
        <VirtualRows
          role="table"
          label="Agents"
          items={shown}
          height={isWide ? agentHeights.wide : agentHeights.narrow}
          keyOf={(agent) => agent.agent_id}
          open={open}
          head={<AgentHead isWide={isWide} />}
        >
          {(agent) => <AgentRow project={project} agent={agent} judged={judged.of(agent)} isWide={isWide} />}
        </VirtualRows>
      </div>
      <p className="label border-t border-line px-3 py-1">
        {count(shown.length)} of {count(data.agents.length)} agents{data.cut ? ', and more that are not shown' : ''}
      </p>
    </>
  )
}

/**
 * The urgent first, as of when the list was opened or asked for something else; then it stays, so that no row runs away from a
 * pointer. Agents that come later stand at the end.
 */
function useOrder(data: Agents, judged: Judgements, question: string): (agents: readonly Agent[]) => readonly Agent[] {
  const sort = () => {
    const standing = (agent: Agent) => judged.of(agent).standing
    const sorted = data.agents.toSorted((one, other) => byUrgency(one, other, standing))
    return new Map(sorted.map((agent, at) => [agent.agent_id, at]))
  }
  const [kept, setKept] = useState(() => ({ question, places: sort() }))
  let { places } = kept
  if (kept.question !== question) {
    places = sort()
    setKept({ question, places })
  }
  return useMemo(
    () => (agents) =>
      agents.toSorted(
        (one, other) => (places.get(one.agent_id) ?? Infinity) - (places.get(other.agent_id) ?? Infinity) || 0,
      ),
    [places],
  )
}

function TargetPanel({
  project,
  agents,
  judged,
}: {
  readonly project: string
  readonly agents: readonly Agent[]
  readonly judged: Judgements
}) {
  const workers = useQuery(workersQuery(project))
  const targets = useMemo(
    () => targetsOf(agents, workers.data?.workers, (agent) => judged.of(agent).standing),
    [agents, workers.data, judged],
  )
  return <Targets project={project} targets={targets} agents={agents} />
}
