/**
 * Where the code of a function agent runs: in the worker's own thread (`none`), in a thread of its own (`thread`) or in a process of
 * its own (`process`), with a memory limit. A thread or process loads the function from a module, because code cannot be sent.
 */
import { InvalidInput } from '@bellwether/protocol'
import { isolations, memoryMb } from '../../settings/schema.js'
import type { AgentFunction, FileAgent } from '../agent.js'

export type Isolation = (typeof isolations)[number]

/** How a function agent runs. */
export interface IsolationOptions {
  /** Where its code runs. */
  readonly isolation?: Isolation | undefined
  /** The most memory of a thread or process, in MiB of JavaScript heap. */
  readonly memoryMaxMb?: number | undefined
}

/** A function agent with options, in an agents file. */
export interface AgentDefinition extends IsolationOptions {
  readonly run: FileAgent
}

/** The same, loaded. */
export interface LoadedAgent extends IsolationOptions {
  readonly run: AgentFunction
}

/** Where the function of an agent is: the default export of the module, or the entry `name` of its default export. */
export interface FunctionSource {
  /** The URL of the module. */
  readonly module: string
  readonly name: string
  /** The function is an `Agent` of the library: it gets the instruction and may return a text. */
  readonly takesInstruction: boolean
}

export interface IsolatedFunction extends FunctionSource {
  readonly isolation: Exclude<Isolation, 'none'>
  readonly memoryMaxMb: number
}

/** The code of a function agent: the function itself, or where it is loaded from. */
export type AgentCode = AgentFunction | (FunctionSource & IsolationOptions)

/** A memory limit without an isolation asks for a thread. */
export const isolationOf = ({ isolation, memoryMaxMb }: IsolationOptions, fallback: Isolation): Isolation =>
  isolation ?? (memoryMaxMb === undefined ? fallback : 'thread')

/** Throws if the options are invalid. `where` starts the message: "Cannot define agent …". */
export function checkIsolation(where: string, { isolation, memoryMaxMb }: IsolationOptions): void {
  if (isolation !== undefined && !isolations.includes(isolation))
    throw new InvalidInput(`${where}: isolation must be ${isolations.join(', ')} (got ${JSON.stringify(isolation)})`, {
      code: 'invalid_isolation',
    })
  if (memoryMaxMb === undefined) return
  const { min, max } = memoryMb
  if (!Number.isInteger(memoryMaxMb) || memoryMaxMb < min || memoryMaxMb > max)
    throw new InvalidInput(`${where}: memoryMaxMb must be a whole number from ${min} to ${max} (got ${memoryMaxMb})`, {
      code: 'invalid_memory_max',
    })
  if (isolation === 'none')
    throw new InvalidInput(`${where}: memoryMaxMb needs a thread or a process`, {
      code: 'invalid_memory_max',
      hint: 'set isolation to "thread" or "process", or remove memoryMaxMb',
    })
}

/** Throws if options for a thread or process come with a function that exists only in this thread. */
export function refuseClosure(where: string, { isolation = 'none', memoryMaxMb }: IsolationOptions): void {
  if (isolation === 'none' && memoryMaxMb === undefined) return
  throw new InvalidInput(`${where}: a function that is defined inline cannot run in another thread or process`, {
    code: 'isolation_needs_module',
    hint: 'export the function from a module and pass { module: new URL("./my-agent.js", import.meta.url) } instead of it',
  })
}
