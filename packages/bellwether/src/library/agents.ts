/** Agents of the library: functions that answer with a text or with a turn action, and their rows in the roster. */
import { isAbsolute } from 'node:path'
import { pathToFileURL } from 'node:url'
import { defined } from '@bellwether/base'
import { InvalidInput, type Memory } from '@bellwether/protocol'
import type { Kernel } from '../kernel/kernel.js'
import { agentFunction, type Agent } from '../worker/agent.js'
import { checkIsolation, refuseClosure, type AgentCode, type IsolationOptions } from '../worker/isolation/isolation.js'

/** An agent whose function is in a module, so that it can run in a thread or process of its own. */
export interface ModuleAgent extends IsolationOptions {
  /**
   * The module: an absolute path or a URL, such as `new URL('./my-agent.js', import.meta.url)`. Its default export is the function, or maps names to
   * functions.
   */
  readonly module: string | URL
}

/** Options of an agent in the roster. */
export interface AgentOptions {
  /** The worker target whose workers run this agent. Default: `default`. */
  readonly target?: string
  /** The absolute limit of each turn in seconds. Default: one hour, or the PMO's setting. */
  readonly turnDeadlineSeconds?: number
  /**
   * What a turn knows of earlier turns: `none` (default), what was asked and answered in the session that the caller names with
   * `sessionId`, or all cards in the agent's `box`.
   */
  readonly memory?: Memory
  /** Free data that queries return with the agent. */
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** The agents of a project. */
export interface AgentRoster {
  /** Adds or changes an agent whose turns the workers of this process run with `run`. */
  define(name: string, run: Agent, options?: AgentOptions): Promise<void>
  /** The same, with a function from a module. It runs in a thread, unless `isolation` says otherwise. */
  define(name: string, agent: ModuleAgent & AgentOptions): Promise<void>
  /** Adds or changes an agent that other workers run. */
  define(name: string, options?: AgentOptions): Promise<void>
}

export const defaultTarget = 'default'

/** `functions` collects the code of the defined agents, for the workers of this process. */
export function openAgents(kernel: Kernel, projectId: string, functions: Record<string, AgentCode>): AgentRoster {
  return {
    async define(name: string, first?: Agent | (Partial<ModuleAgent> & AgentOptions), second?: AgentOptions) {
      const options = (typeof first === 'function' ? second : first) ?? {}
      const { target = defaultTarget, turnDeadlineSeconds, memory, metadata } = options
      const { module, ...stated } = options as Partial<ModuleAgent>
      const agent = typeof first === 'function' ? first : module === undefined ? undefined : { ...stated, module }
      const code = agent && codeOf(name, agent, stated)
      await kernel.putAgents([
        { projectId, agentId: name, workerTarget: target, ...defined({ turnDeadlineSeconds, memory, metadata }) },
      ])
      if (code !== undefined) functions[name] = code
    },
  }
}

/** Throws if an inline function should run in a thread or process, or if an option is invalid. */
export function codeOf(name: string, agent: Agent | ModuleAgent, options: IsolationOptions = {}): AgentCode {
  const where = `Cannot define agent ${JSON.stringify(name)}`
  if (typeof agent === 'function') {
    refuseClosure(where, options)
    return agentFunction(agent)
  }
  const { module, isolation, memoryMaxMb } = agent
  checkIsolation(where, { isolation, memoryMaxMb })
  return { module: moduleUrl(where, module), name, takesInstruction: true, isolation, memoryMaxMb }
}

function moduleUrl(where: string, module: string | URL): string {
  const url = typeof module === 'string' && isAbsolute(module) ? pathToFileURL(module).href : String(module)
  if (URL.canParse(url)) return url
  throw new InvalidInput(`${where}: module must be an absolute path or a URL (got ${JSON.stringify(url)})`, {
    code: 'invalid_module',
    hint: 'pass new URL("./my-agent.js", import.meta.url)',
  })
}
