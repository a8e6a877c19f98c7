/**
 * The standby thread, which standby.ts starts. It has a database connection of its own and needs nothing from the main thread except its counter and
 * its list of turns. It loads the database modules only when the event loop is blocked, to save memory in a healthy worker.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { systemClock } from '@bellwether/base'
import { turnKey, type Fence } from '../../../kernel/verdict.js'
import { systemMachine } from '../../../ports/disk/machine.js'
import { sendRenewals } from '../../../ports/processes/renewal-channel.js'
import { writeToken } from '../../../ports/processes/token.js'
import type { StandbyData, StandbyOrder, StandbyReport } from './standby-messages.js'

const { url, workerId, beatMs, blockedMaxMs = Infinity, ticks, role, guard } = workerData as StandbyData
const turns = new Map<string, Fence>()
parentPort?.on('message', (order: StandbyOrder) => {
  if ('add' in order) for (const turn of order.add) turns.set(turnKey(turn), turn)
  else for (const key of order.remove) turns.delete(key)
})

const report = (what: StandbyReport) => parentPort?.postMessage(what, [])

async function load() {
  const [{ beat }, { noteBlocked }, { openDatabase }, { openLog }] = await Promise.all([
    import('../../../kernel/verbs/turn/beat.js'),
    import('../../../kernel/verbs/roster.js'),
    import('../../../ports/database/pool.js'),
    import('../../logger.js'),
  ])
  const log = role === undefined ? undefined : openLog(role)
  // A dead connection must fail well before the turns count as silent.
  const options = { url, applicationName: 'bellwether standby', poolSize: 1, statementTimeoutMs: beatMs }
  let database: ReturnType<typeof openDatabase> | undefined
  const open = async () => {
    database ??= openDatabase(options)
    return database.catch((error: unknown) => {
      database = undefined
      throw error
    })
  }
  return { beat, noteBlocked, open, log }
}

let loaded: ReturnType<typeof load> | undefined
let blockedMs = 0
let count = 0
let countedAtMs = systemClock.monotonicMs()

async function step(): Promise<void> {
  const now = Atomics.load(ticks, 0)
  if (now !== count) countedAtMs = systemClock.monotonicMs()
  count = now
  const quietMs = systemClock.monotonicMs() - countedAtMs
  if (quietMs < beatMs) {
    if (blockedMs > 0) report({ blockedMs })
    blockedMs = 0
    return
  }
  const isNew = blockedMs === 0
  blockedMs = quietMs
  const fields = { blocked_seconds: Math.round(quietMs / 1_000), turns: turns.size }
  const { beat, noteBlocked, open, log } = await (loaded ??= load())
  if (isNew) log?.warn(fields, 'event loop is blocked')
  if (quietMs > blockedMaxMs) {
    log?.error(fields, 'event loop blocked for too long; ending the process')
    process.kill(process.pid, 'SIGKILL')
  }
  try {
    const db = await open()
    const fences = [...turns.values()]
    const sentMs = systemMachine.uptimeMs()
    const alive = await beat(db, fences, workerId)
    report({ confirmed: [...alive], sentAtMs: sentMs })
    if (guard !== undefined) {
      const until = Math.round(sentMs + guard.ttlMs)
      const tokens = [...alive].map((turn) => writeToken({ ...guard.tokens, ...turn }))
      sendRenewals(
        guard.channel,
        tokens.map((token) => ({ do: 'renew', token, until })),
      )
    }
    if (isNew) await noteBlocked(db, workerId, fences)
  } catch (error) {
    log?.error({ err: error }, 'standby beat failed')
  }
}

for (;;) {
  await systemClock.sleep(beatMs / 2)
  await step()
}
