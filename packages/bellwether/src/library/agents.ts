/** Agents of the library: functions that answer with a text or with a turn action, and their rows in the roster. */
import { defined } from '@bellwether/base'
import type { Kernel } from '../kernel/kernel.js'
import type { AgentFunction, TurnAction, TurnContext } from '../worker/agent.js'
import type { Agents } from '../worker/agents.js'

/** What an agent function gets: the task, the results of the tools it waited for, and calls that write under the turn's fence. */
export interface AgentTurn extends TurnContext {
  /** The task as text. */
  readonly instruction: string
}

/**
 * The code of an agent. A returned text is the deliverable. `{ deliver }` delivers a text, result fields or a failure;
 * `{ suspend }` waits for tool calls without holding a process, and the function is called again with their `results`.
 */
export type Agent = (turn: AgentTurn) => string | TurnAction | Promise<string | TurnAction>

/** Options of an agent in the roster. */
export interface AgentOptions {
  /** The worker target whose workers run this agent. Default: `default`. */
  readonly target?: string
  /** The absolute limit of each turn in seconds. Default: one hour, or the PMO's setting. */
  readonly turnDeadlineSeconds?: number
  /** Free data that queries return with the agent. */
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** The agents of a project. */
export interface AgentRoster {
  /** Adds or changes an agent whose turns the workers of this process run with `run`. */
  define(name: string, run: Agent, options?: AgentOptions): Promise<void>
  /** Adds or changes an agent that other workers run. */
  define(name: string, options?: AgentOptions): Promise<void>
}

export const defaultTarget = 'default'

/** `functions` collects the code of the defined agents, for the workers of this process. */
export function openAgents(kernel: Kernel, projectId: string, functions: Record<string, AgentFunction>): AgentRoster {
  return {
    async define(name: string, first?: Agent | AgentOptions, second?: AgentOptions) {
      const [run, options = {}] = typeof first === 'function' ? [first, second] : [undefined, first]
      const { target = defaultTarget, turnDeadlineSeconds, metadata } = options
      await kernel.putAgents([
        { projectId, agentId: name, workerTarget: target, ...defined({ turnDeadlineSeconds, metadata }) },
      ])
      if (run !== undefined) functions[name] = agentFunction(run)
    },
  }
}

export const agentFunctions = (agents: Readonly<Record<string, Agent>>): Agents =>
  Object.fromEntries(Object.entries(agents).map(([name, run]) => [name, agentFunction(run)]))

function agentFunction(run: Agent): AgentFunction {
  return async (context) => {
    const { context: cards } = await context.hydrate()
    const instruction = cards
      .filter((card) => card.type === 'task.instruction')
      .map((card) => (card.content as { readonly text?: string }).text ?? '')
      .join('\n')
    const answer = await run({ ...context, instruction })
    return typeof answer === 'string' ? { deliver: { text: answer } } : answer
  }
}
