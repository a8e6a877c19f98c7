/** Starts a turn, waits for its end and prints its deliverable. Shared by all verbs that start a turn. */
import { defined, systemClock, systemRandom } from '@bellwether/base'
import type { TurnDetail } from '@bellwether/protocol/http'
import type { Client } from '../../client/client.js'
import { plain } from '../../client/sanitize.js'
import { describeEvent, followTurn, type startTurn, type WaitPorts } from '../../client/turns.js'
import { uuidv7 } from '../../ports/ids.js'
import type { ServerFlags } from '../shared/client.js'
import { interruptedCode, untilInterrupted } from '../shared/interrupt.js'
import { openProgress } from '../shared/live.js'
import { asTyped, exitCodes, print } from '../shared/output.js'
import { queueReason } from './queue-reason.js'
import { turnTranscript } from './turn-transcript.js'

export type Finish = (code: number) => void

export interface RunFlags extends ServerFlags {
  readonly wait: boolean
  readonly file?: string
  readonly maxSeconds?: number
  readonly maxTokens?: number
  readonly session?: string
  readonly idempotencyKey?: string
}

export function budgetOf({ maxSeconds, maxTokens }: RunFlags) {
  const budget = defined({ max_wall_ms: maxSeconds && maxSeconds * 1_000, max_tokens: maxTokens })
  return Object.keys(budget).length === 0 ? {} : { budget }
}

export async function runStarted(
  client: Client,
  agent: string,
  flags: RunFlags,
  start: (key: string, ports: WaitPorts) => ReturnType<typeof startTurn>,
): Promise<number> {
  const key = flags.idempotencyKey ?? uuidv7(systemClock, systemRandom).next()
  let id: string | undefined
  const progress = openProgress(flags.json !== true)
  const { value, interrupted } = await untilInterrupted(async (signal) => {
    const ports = { clock: systemClock, signal }
    const started = await start(key, ports)
    id = started.agent_turn_id
    const wait = await queueReason(client, { ...started, agent_id: agent })
    if (!flags.wait) {
      if (wait !== undefined) process.stderr.write(`${plain(wait)}\n`)
      print(flags, started, () => started.agent_turn_id)
      return undefined
    }
    progress.show(plain(`${id}  ${wait ?? started.status}`))
    return followTurn(client, started.agent_turn_id, {
      ...ports,
      onEvent: (event) => progress.show(plain(`${id}  ${describeEvent(event)}`)),
    })
  }).finally(() => progress.clear())
  if (interrupted) return stillRunning(id)
  return value === undefined ? exitCodes.ok : show(flags, value)
}

/** Ctrl-C stops watching; the turn keeps running. */
export function stillRunning(id: string | undefined): number {
  if (id !== undefined)
    process.stderr.write(
      asTyped(
        `The turn keeps running. To follow or stop it: bellwether turn watch ${id}, bellwether turn stop ${id}\n`,
      ),
    )
  return interruptedCode
}

export function show(flags: ServerFlags, turn: TurnDetail, waits?: string): number {
  print(flags, turn, () => turnTranscript(turn, systemClock.wallMs(), waits))
  return turn.outcome === null || turn.outcome === 'success' ? exitCodes.ok : exitCodes.failure
}
