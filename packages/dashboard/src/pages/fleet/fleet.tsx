/** Fleet page, the first one: a summary of what is running, stuck or needs a person, then every agent. */
import { defined } from '@bellwether/base'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useDeferredValue, useMemo, useState } from 'react'
import { agentsQuery, workersQuery } from '../../api/queries.js'
import type { Agent, Agents } from '../../api/types.js'
import { byUrgency, assess, conditions, tally, targetsOf, type Assessment, type Condition } from '../../model/fleet.js'
import { count } from '../../model/text.js'
import { useAskingAgents } from '../../frame/needs.js'
import { agentColumns, AgentRow } from './agent-row.js'
import { Page } from '../../frame/page.js'
import { Activity } from './activity.js'
import { Search } from '../../parts/search.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { Targets } from './targets.js'
import { RunTurn } from '../turns/run-turn.js'
import { Picker } from '../../parts/picker.js'
import { Table } from '../../parts/rows.js'
import { useNow } from '../../parts/time.js'
import { useWide } from '../../parts/wide.js'

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
          <Picker
            label="Show"
            none="all agents"
            words={conditions}
            value={show}
            change={(word) =>
              void navigate({ search: ({ show: _show, ...rest }) => ({ ...rest, ...defined({ show: word }) }) })
            }
          />
          {target !== undefined && (
            <button
              type="button"
              className="button"
              onClick={() => void navigate({ search: ({ target: _target, ...rest }) => rest })}
            >
              target {target} ×
            </button>
          )}
          <RunTurn project={project} />
        </>
      }
    >
      <Fleet key={project} project={project} query={agents} />
    </Page>
  )
}

function Fleet({ project, query }: { readonly project: string; readonly query: ReturnType<typeof useQuery<Agents>> }) {
  const assessments = useAssessments(query.data)
  const sums = useMemo(
    () => (query.data === undefined ? undefined : tally(query.data.agents, (agent) => assessments.of(agent).condition)),
    [query.data, assessments],
  )
  return (
    <>
      <Activity project={project} sums={sums} />
      <QueryState
        query={query}
        isEmpty={(data) => data.agents.length === 0}
        empty={
          <Empty title="This project has no agents yet">
            Add a file to <code>agents/</code>, or run <code>bellwether init</code>.
          </Empty>
        }
      >
        {(data) => (
          <div className="flex min-h-0 flex-1 flex-col gap-3 p-3 min-[1240px]:flex-row">
            <div className="panel flex min-h-64 min-w-0 flex-1 flex-col overflow-hidden">
              <AgentTable project={project} data={data} assessments={assessments} />
            </div>
            <TargetPanel project={project} agents={data.agents} assessments={assessments} />
          </div>
        )}
      </QueryState>
    </>
  )
}

interface Assessments {
  of(agent: Agent): Assessment
}

/** Assessed again with every response and every few seconds, because a deadline passes without an event. */
function useAssessments(data: Agents | undefined): Assessments {
  const fewSeconds = Math.floor(useNow() / 5_000) * 5_000
  return useMemo(() => {
    const known = new WeakMap<Agent, Assessment>()
    const readAtMs = data?.readAtMs ?? 0
    return {
      of(agent) {
        const found = known.get(agent) ?? assess(agent, fewSeconds, readAtMs)
        known.set(agent, found)
        return found
      },
    }
  }, [data, fewSeconds])
}

interface TableProps {
  readonly project: string
  readonly data: Agents
  readonly assessments: Assessments
}

function AgentTable({ project, data, assessments }: TableProps) {
  const { show, q, target } = useSearch({ from: '/p/$project/fleet' })
  const navigate = useNavigate()
  const isWide = useWide()
  const asking = useAskingAgents(project)
  const words = useDeferredValue(q ?? '').toLowerCase()
  const order = useOrder(data, assessments, `${show} ${target}`)
  const shown = useMemo(() => {
    const condition = (agent: Agent): Condition => assessments.of(agent).condition
    return order(data.agents).filter(
      (agent) =>
        (show === undefined || condition(agent) === show) &&
        (target === undefined || agent.worker_target === target) &&
        (words === '' ||
          [agent.agent_id, agent.worker_target, agent.state?.current_tool ?? ''].some((text) =>
            text.toLowerCase().includes(words),
          )),
    )
  }, [data, assessments, order, show, target, words])
  const open = (agent: Agent) => {
    const turn = agent.state?.active_agent_turn_id ?? agent.last_turn?.agent_turn_id
    if (turn === undefined)
      void navigate({ to: '/p/$project/turns', params: { project }, search: { agent: agent.agent_id } })
    else void navigate({ to: '/p/$project/turns/$turn', params: { project, turn } })
  }
  if (shown.length === 0) return <Empty title="No matching agents">Change the search, or show all agents.</Empty>
  return (
    <Table
      label="Agents"
      items={shown}
      columns={agentColumns}
      isWide={isWide}
      keyOf={(agent) => agent.agent_id}
      open={open}
      note={`${count(shown.length)} of ${count(data.agents.length)} agents${data.cut ? '; more exist' : ''}`}
    >
      {(agent) => (
        <AgentRow
          project={project}
          agent={agent}
          assessment={assessments.of(agent)}
          isAsking={asking.has(agent.agent_id)}
          isWide={isWide}
        />
      )}
    </Table>
  )
}

/**
 * The most urgent first, as of when the list was opened or its filter changed. The order then stays, so that no row moves away from
 * the pointer. Agents that appear later come last.
 */
function useOrder(
  data: Agents,
  assessments: Assessments,
  question: string,
): (agents: readonly Agent[]) => readonly Agent[] {
  const sort = () => {
    const condition = (agent: Agent) => assessments.of(agent).condition
    const sorted = data.agents.toSorted((one, other) => byUrgency(one, other, condition))
    return new Map(sorted.map((agent, at) => [agent.agent_id, at]))
  }
  const [stored, setStored] = useState(() => ({ question, places: sort() }))
  let { places } = stored
  if (stored.question !== question) {
    places = sort()
    setStored({ question, places })
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
  assessments,
}: {
  readonly project: string
  readonly agents: readonly Agent[]
  readonly assessments: Assessments
}) {
  const workers = useQuery(workersQuery(project))
  const targets = useMemo(
    () => targetsOf(agents, workers.data?.workers, (agent) => assessments.of(agent).condition),
    [agents, workers.data, assessments],
  )
  return <Targets project={project} targets={targets} agents={agents} isPending={workers.isPending} />
}
