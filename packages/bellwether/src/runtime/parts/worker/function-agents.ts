/** Turns the code of function agents into functions that the worker calls: in its own thread, in a thread or in a process per turn. */
import type { Clock, Log } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Kernel } from '../../../kernel/kernel.js'
import type { Settings } from '../../../settings/schema.js'
import {
  agentFunction,
  fileFunction,
  functionIn,
  type Agent,
  type AgentFunction,
  type FileAgent,
} from '../../../worker/agent.js'
import { openIsolationExecutor, type IsolationExecutor } from '../../../worker/isolation/executor.js'
import {
  isolationOf,
  type AgentCode,
  type FunctionSource,
  type Isolation,
} from '../../../worker/isolation/isolation.js'
import type { ProcessGuard } from './process-guard.js'

export interface FunctionAgentsOptions {
  readonly kernel: Pick<Kernel, 'handBack'>
  readonly clock: Clock
  readonly log: Log
  readonly workerId: string
  readonly settings: Settings
  readonly guard: ProcessGuard
  /** The working directory of processes. */
  readonly folder: string
}

export interface FunctionAgents extends Pick<IsolationExecutor, 'renew' | 'guards' | 'close'> {
  /** `fallback`: the isolation of code that states none. */
  of(code: AgentCode, fallback: Isolation): AgentFunction
}

export function openFunctionAgents(options: FunctionAgentsOptions): FunctionAgents {
  const { kernel, workerId, settings, guard } = options
  const executor = openIsolationExecutor({
    ...options,
    ...guard,
    handBack: (turn) => kernel.handBack([turn], workerId),
  })
  return {
    ...executor,
    of(code, fallback) {
      if (typeof code === 'function') return code
      const isolation = isolationOf(code, fallback)
      if (isolation === 'none') return loaded(code)
      return executor.agent({ ...code, isolation, memoryMaxMb: code.memoryMaxMb ?? settings.worker.memory_max_mb })
    },
  }
}

/** The function of a module that this thread loads with the first turn. */
function loaded({ module, name, takesInstruction }: FunctionSource): AgentFunction {
  return async (context) => {
    const found = functionIn(((await import(module)) as { readonly default?: unknown }).default, name)
    if (found === undefined)
      throw new InvalidInput(
        `Cannot run agent "${name}": the default export of ${module} must be a function, or an object with one`,
        { code: 'agent_module_invalid' },
      )
    return (takesInstruction ? agentFunction(found as Agent) : fileFunction(found as FileAgent))(context)
  }
}
