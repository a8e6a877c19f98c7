/**
 * A scaled-out installation: one server, two PMOs, four workers of two targets and two sensors of one directory, on one PostgreSQL.
 * Under a steady load over HTTP the test kills processes and connections, then replaces processes in turn: one per kind, or, in
 * `npm run thorough`, all of them.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { checkTurns } from '@bellwether/demo'
import { followEvents, type EventReader } from '../support/follow-events.js'
import { startNats, type NatsServer } from '../support/nats.js'
import { freshDatabase } from '../support/postgres.js'
import { isToday, thorough } from '../support/thorough.js'
import type { Slot } from '../support/processes/slots.js'
import { startTopology, type Topology } from '../support/processes/topology.js'
import { until } from '../support/until.js'

let nats: NatsServer
beforeAll(async () => {
  nats = await startNats()
})
afterAll(() => nats.stop())

const quick = ['plain-0', 'plain-1', 'plain-2', 'plain-3', 'slow-0', 'slow-1', 'child-0', 'child-1']
const tooled = ['asking-0', 'asking-1', 'asking-2', 'forking-0', 'forking-1']
/** Enqueued in turn; slow agents less often, children only by their parents. */
const enqueued = [
  'plain-0',
  'asking-0',
  'forking-0',
  'plain-1',
  'asking-1',
  'plain-2',
  'forking-1',
  'asking-2',
  'plain-3',
]
const slowEvery = 20
const openMax = 12
/** A steady load that leaves capacity for starting processes. */
const paceMs = thorough ? 25 : 60
// A sensor retries after ten seconds if two connections were refused.
const sensorMs = 40_000

/** Enqueues turns until `stop`, with a bounded number of open turns. */
function startEnqueuing({ ask, project }: Topology, reader: EventReader) {
  const stopping = new AbortController()
  const turnIds: string[] = []
  const add = async (agent: string) => {
    const key = `${agent}-${turnIds.length}`
    const path = `/projects/${project}/agents/${agent}/turns`
    turnIds.push(String((await ask('POST', path, { instruction: 'go' }, key))['agent_turn_id']))
  }
  const running = (async () => {
    for (let round = 0; !stopping.signal.aborted; round += 1) {
      await add(round % slowEvery === 0 ? `slow-${(round / slowEvery) % 2}` : enqueued[round % enqueued.length]!)
      do await systemClock.sleep(paceMs, stopping.signal)
      while (!stopping.signal.aborted && turnIds.filter((id) => !reader.ended.has(id)).length > openMax)
    }
  })()
  return {
    turnIds,
    async stop() {
      stopping.abort()
      await running
    },
  }
}

async function leaderOf({ ask, sensors }: Topology): Promise<Slot> {
  const name = await until(
    'there is one leader and one follower',
    async () => {
      const { sessions } = (await ask('GET', '/views/shared/sessions')) as { sessions: Record<string, unknown>[] }
      return sessions.length === 2 ? sessions.find((one) => one['role'] === 'leader')?.['agent_id'] : undefined
    },
    sensorMs,
  )
  return sensors[['host-1', 'host-2'].indexOf(String(name))]!
}

/** Holds slow turns; a worker that runs one. */
async function holdSlowWorker({ db, workers, slowTurns }: Topology): Promise<Slot> {
  const ids = await Promise.all(workers.map(async (slot) => (await slot.cli.ready())['worker_id']))
  await slowTurns.start()
  return workers[ids.indexOf((await slowTurns.turn(db, ids)).claimed_by)]!
}

const viewShows = (t: Topology, file: string) =>
  until(
    `the view shows ${file}`,
    async () => {
      const response = await fetch(`${t.url}/api/v1/views/shared/tree?path=/&recursive=true`, { headers: t.headers })
      return response.ok && (await response.text()).includes(file) ? true : undefined
    },
    sensorMs,
  )

async function settle({ db, project }: Topology): Promise<void> {
  const text = 'select count(*)::int as n from state.turns where project_id = $1 and ended_at is null'
  const ended = async () =>
    (await db.query<{ n: number }>({ text, values: [project] }))[0]?.n === 0 ? true : undefined
  await until('every turn has ended', ended, 30_000)
}

// crash.test.ts kills processes with the notify bell in every run.
describe.runIf(isToday('topology')).each(thorough ? (['notify', 'nats'] as const) : (['nats'] as const))(
  'with the %s bell',
  (bell) => {
    it('[T1.6] [T1.4] [V1.2] loses nothing while processes are killed and then others are replaced under load', async () => {
      const database = await freshDatabase()
      onTestFinished(() => database.drop())
      const t = await startTopology({ url: database.url, ...(bell === 'nats' ? { natsUrl: nats.url } : {}) })
      onTestFinished(() => t.stop())
      const agents = [...quick, ...tooled].map((agent_id) => ({
        agent_id,
        worker_target: quick.includes(agent_id) ? 'quick' : 'tooled',
      }))
      await t.ask('PUT', `/projects/${t.project}/agents`, { agents })
      const reader = followEvents(`${t.url}/api/v1/projects/${t.project}/events`, t.headers)
      onTestFinished(() => reader.stop())
      const load = startEnqueuing(t, reader)
      onTestFinished(() => load.stop())
      await writeFile(join(t.shared, 'before.txt'), 'before')
      await reader.progress(40)

      const leader = await leaderOf(t)
      const victims = [await holdSlowWorker(t), t.pmos[0]!, leader]
      await Promise.all(victims.map((slot) => slot.kill()))
      await t.slowTurns.release()
      await writeFile(join(t.shared, 'leaderless.txt'), 'written without a leader')
      await t.db.query({
        text: "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'bellwether%' and datname = current_database()",
      })
      await reader.progress(20)
      await Promise.all(victims.map((slot) => slot.start()))
      expect(await t.server.replace()).toBe(0)
      await reader.progress(20)
      await viewShows(t, 'leaderless.txt')

      const replaced = thorough ? t.slots : [t.pmos[1]!, t.workers[1]!, t.workers[3]!, t.sensors[1]!]
      for (const slot of replaced) {
        expect([slot.name, await slot.replace()]).toEqual([slot.name, 0])
        await reader.progress(3)
      }
      await writeFile(join(t.shared, 'after.txt'), 'after')
      await load.stop()
      await settle(t)

      const all = await t.db.query<{ agent_turn_id: string }>({
        text: 'select agent_turn_id from state.turns where project_id = $1',
        values: [t.project],
      })
      const ids = all.map((row) => row.agent_turn_id)
      expect(new Set(load.turnIds).size).toBe(load.turnIds.length)
      expect(load.turnIds.filter((id) => !ids.includes(id))).toEqual([])
      const check = await checkTurns(t.db, t.project, ids, 'quick')
      expect(check).toMatchObject({ stuck: [], lost: [], outcomes: { success: check.turns }, taskEvents: check.turns })
      expect(check.takenOver).toBeGreaterThan(0)

      // The reader reconnected at least twice and has seen every event once, in order.
      const events = await t.db.query<{ cursor: string }>({
        text: "select xid::text || ':' || event_id as cursor from state.events where project_id = $1 order by xid, event_id",
        values: [t.project],
      })
      await until('the reader caught up', async () => (reader.seen.length >= events.length ? true : undefined))
      expect(reader.seen.map(({ id }) => id)).toEqual(events.map(({ cursor }) => cursor))
      expect(reader.reconnects).toBeGreaterThanOrEqual(2)

      for (const file of ['before.txt', 'leaderless.txt', 'after.txt']) await viewShows(t, file)
      await leaderOf(t)
    })
  },
)
