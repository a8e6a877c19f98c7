/**
 * Decides which agent may take a task (H9.5), by `agents[]` of config/runtime-policy.json. A file that lists agents admits these only; a
 * task's `capabilities`, and a `role` that is not the name of a listed agent, are capabilities that its agent must have. Pure.
 */
import type { Task } from '../log/task.js'
import { human, type RecoveryPolicy } from './recovery.js'
import { runtimeFile, type RuntimeAgent } from './runtime.js'

export type AgentChoice = { readonly agent: string } | { readonly why: string }

const nameKey = (name: string): string => name.trim().toLowerCase()

/** What the agent of a task must be able to do. */
function neededFor(task: Task, listed: ReadonlySet<string>): readonly string[] {
  const { capabilities, role } = task.fields
  const named = Array.isArray(capabilities) ? capabilities.filter((capability) => typeof capability === 'string') : []
  return typeof role === 'string' && role !== '' && listed.size > 0 && !listed.has(nameKey(role))
    ? [...named, role]
    : named
}

const lacks = (agent: RuntimeAgent, needed: readonly string[]): readonly string[] => {
  const has = new Set(agent.capabilities.map(nameKey))
  return needed.filter((one) => !has.has(nameKey(one)))
}

/** `isFixed`: a person or an earlier decision named this agent; else another one may take its place. */
export function chooseAgent(
  agents: readonly RuntimeAgent[],
  task: Task,
  wanted: string,
  isFixed: boolean,
): AgentChoice {
  const byName = new Map(agents.map((agent) => [nameKey(agent.id), agent]))
  const needed = neededFor(task, new Set(byName.keys()))
  if (agents.length === 0)
    return needed.length === 0
      ? { agent: wanted }
      : { why: `it needs an agent that can ${needed.join(', ')}, and ${runtimeFile} lists no agents` }
  const own = byName.get(nameKey(wanted))
  if (own !== undefined && lacks(own, needed).length === 0) return { agent: wanted }
  if (isFixed)
    return {
      why:
        own === undefined
          ? `"${wanted}" is not among the agents of ${runtimeFile}`
          : `${runtimeFile} does not list these capabilities for "${wanted}": ${lacks(own, needed).join(', ')}`,
    }
  const other = agents.find((agent) => lacks(agent, needed).length === 0)
  if (other !== undefined) return { agent: other.id }
  return { why: `no agent of ${runtimeFile} has the capabilities ${needed.join(', ')}` }
}

/** The recovery chain without the members that may not take this task. */
export function eligibleChain(recovery: RecoveryPolicy, agents: readonly RuntimeAgent[], task: Task): RecoveryPolicy {
  const admits = (name: string) => name === human || 'agent' in chooseAgent(agents, task, name, true)
  const recoveryChain = recovery.recoveryChain.filter(admits)
  return recoveryChain.length === recovery.recoveryChain.length ? recovery : { ...recovery, recoveryChain }
}
