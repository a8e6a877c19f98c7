/**
 * A guest: the thread or process that runs the function of one turn. It loads the module, gives the function a context whose calls the
 * worker executes, and sends back the action. The worker ends it afterwards, so nothing that the function started outlives the turn.
 */
import { writeFileSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { asError, systemClock, systemRandom } from '@bellwether/base'
import { uuidv7 } from '../../ports/ids.js'
import {
  agentFunction,
  fileFunction,
  functionIn,
  type Agent,
  type AgentFunction,
  type FileAgent,
  type TurnContext,
} from '../agent.js'
import {
  needsClass,
  packError,
  unpackError,
  type ContextVerb,
  type FromGuest,
  type GuestRun,
  type PackedError,
  type ToGuest,
} from './messages.js'

const cancellation = new AbortController()
const ids = uuidv7(systemClock, systemRandom)
const waiting = new Map<number, { resolve(value: unknown): void; reject(error: PackedError): void }>()
let calls = 0

function post(message: FromGuest): void {
  if (parentPort === null) process.send?.(message)
  else parentPort.postMessage(message, [])
}

function send(message: FromGuest): void {
  try {
    post(message)
  } catch (error) {
    // The message contains a value that cannot be cloned, such as a function.
    const message = `Cannot send the result to the worker: ${packError(error).message}`
    post({ failed: { name: 'InvalidInput', code: 'result_not_cloneable', message } })
  }
}

function call<V extends ContextVerb>(turnId: string, verb: V, args: Parameters<TurnContext[V]>): Promise<unknown> {
  calls += 1
  const number = calls
  return new Promise((resolve, reject) => {
    const fail = async (error: PackedError) =>
      reject(unpackError(error, turnId, needsClass(error) ? await import('@bellwether/protocol') : undefined))
    waiting.set(number, { resolve, reject: (error) => void fail(error) })
    try {
      post({ call: number, verb, args } as FromGuest)
    } catch (error) {
      waiting.delete(number)
      reject(asError(error))
    }
  })
}

function contextOf({ turn, results }: GuestRun): TurnContext {
  const verb =
    <V extends ContextVerb>(name: V) =>
    (...args: Parameters<TurnContext[V]>) =>
      call(turn.agentTurnId, name, args) as ReturnType<TurnContext[V]>
  return {
    turn,
    results,
    signal: cancellation.signal,
    newId: () => ids.next(),
    say: (entry) => send({ say: entry }),
    hydrate: verb('hydrate'),
    record: verb('record'),
    messages: verb('messages'),
    activity: verb('activity'),
    reserve: verb('reserve'),
    commit: verb('commit'),
    release: verb('release'),
    swapBox: verb('swapBox'),
  }
}

const invalid = (message: string): PackedError => ({ name: 'InvalidInput', code: 'agent_module_invalid', message })

/** The function, or why there is none. */
async function load({ module, name, takesInstruction }: GuestRun): Promise<AgentFunction | PackedError> {
  let exported: unknown
  try {
    exported = ((await import(module)) as { readonly default?: unknown }).default
  } catch (error) {
    return invalid(`Cannot load ${module}: ${packError(error).message}`)
  }
  const found = functionIn(exported, name)
  if (found === undefined)
    return invalid(
      `Cannot run agent "${name}": the default export of ${module} must be a function, or an object with one`,
    )
  return takesInstruction ? agentFunction(found as Agent) : fileFunction(found as FileAgent)
}

async function run(request: GuestRun): Promise<void> {
  try {
    const agent = await load(request)
    send(typeof agent === 'function' ? { action: await agent(contextOf(request)) } : { failed: agent })
  } catch (error) {
    send({ failed: packError(error) })
  }
}

function take(message: ToGuest): void {
  if ('run' in message) void run(message.run)
  else if ('abort' in message) cancellation.abort(message.abort)
  else {
    const call = waiting.get(message.reply)
    waiting.delete(message.reply)
    if ('error' in message) call?.reject(message.error)
    else call?.resolve(message.value)
  }
}

/** If the machine runs out of memory, the kernel kills this process and not the worker. */
function preferToBeKilled(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000')
  } catch {
    return // not Linux, or a sandbox that refuses it
  }
}

// Thrown in a timer, or a rejection without a handler: the turn fails with the message, like any other error of the function.
process.on('uncaughtException', (error) => send({ failed: packError(error) }))

if (parentPort === null) {
  process.on('message', take)
  // The worker has ended.
  process.on('disconnect', () => process.exit(1))
  preferToBeKilled()
} else parentPort.on('message', take)
