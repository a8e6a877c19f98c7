/**
 * The scaled-out house: one server, two PMOs, four workers of two targets, two sensors on one directory, against one PostgreSQL.
 * Under a steady load over HTTP parts of it are killed and cut off, and then every process is replaced, one after another.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { checkTurns } from '@bellwether/demo'
import { followEvents, type EventReader } from '../support/follow-events.js'
import { startNats, type NatsServer } from '../support/nats.js'
import { testCluster, type TestCluster } from '../support/postgres.js'
import { startTopology, type Seat, type Topology } from '../support/topology.js'
import { until } from '../support/until.js'

let cluster: TestCluster
let nats: NatsServer
beforeAll(async () => {
  cluster = await testCluster({ durable: true })
  nats = await startNats()
})
afterAll(async () => {
  await nats.stop()
  await cluster.remove()
})

const quick = ['plain-0', 'plain-1', 'plain-2', 'plain-3', 'slow-0', 'slow-1', 'child-0', 'child-1']
const tooled = ['asking-0', 'asking-1', 'asking-2', 'forking-0', 'forking-1']
/** Put in line again and again; the slow ones less often, the children by their parents only. */
const asked = ['plain-0', 'asking-0', 'forking-0', 'plain-1', 'asking-1', 'plain-2', 'forking-1', 'asking-2', 'plain-3']
const slowEvery = 20
const openMax = 12
/** Steady, and leaves the machine to the processes that start. */
const paceMs = 25
// A sensor that met a closed door twice comes back after ten seconds.
const sensorMs = 40_000

/** Puts turns in line, as long as few enough are open, until it is told to stop; answers the ids. */
function startAsking({ ask, project }: Topology, reader: EventReader) {
  const stopping = new AbortController()
  const turnIds: string[] = []
  const add = async (agent: string) => {
    const key = `${agent}-${turnIds.length}`
    const path = `/projects/${project}/agents/${agent}/turns`
    turnIds.push(String((await ask('POST', path, { instruction: 'go' }, key))['agent_turn_id']))
  }
  const asking = (async () => {
    for (let round = 0; !stopping.signal.aborted; round += 1) {
      await add(round % slowEvery === 0 ? `slow-${(round / slowEvery) % 2}` : asked[round % asked.length]!)
      do await systemClock.sleep(paceMs, stopping.signal)
      while (!stopping.signal.aborted && turnIds.filter((id) => !reader.ended.has(id)).length > openMax)
    }
  })()
  return {
    turnIds,
    async stop() {
      stopping.abort()
      await asking
    },
  }
}

async function leaderOf({ ask, sensors }: Topology): Promise<Seat> {
  const name = await until(
    'one sensor leads and one follows',
    async () => {
      const { sessions } = (await ask('GET', '/views/shared/sessions')) as { sessions: Record<string, unknown>[] }
      return sessions.length === 2 ? sessions.find((one) => one['role'] === 'leader')?.['agent_id'] : undefined
    },
    sensorMs,
  )
  return sensors[['host-1', 'host-2'].indexOf(String(name))]!
}

async function slowWorker({ db, workers }: Topology): Promise<Seat> {
  const ids = await Promise.all(workers.map(async (seat) => (await seat.cli.ready())['worker_id']))
  const text = `select claimed_by from state.turns where agent_id like 'slow-%' and status = 'running'
    and claimed_by = any ($1) and started_at > state.now() - interval '0.7 seconds'`
  const [row] = await until('a slow turn runs', async () => {
    const rows = await db.query<{ claimed_by: string }>({ text, values: [ids] })
    return rows.length > 0 ? rows : undefined
  })
  return workers[ids.indexOf(row!.claimed_by)]!
}

const knows = (t: Topology, file: string) =>
  until(
    `the view knows ${file}`,
    async () => {
      const response = await fetch(`${t.url}/api/v1/views/shared/tree?path=/&recursive=true`, { headers: t.headers })
      return response.ok && (await response.text()).includes(file) ? true : undefined
    },
    sensorMs,
  )

async function settle({ db, project }: Topology): Promise<void> {
  const text = 'select count(*)::int as n from state.turns where project_id = $1 and ended_at is null'
  const look = async () => ((await db.query<{ n: number }>({ text, values: [project] }))[0]?.n === 0 ? true : undefined)
  await until('every turn has ended', look, 30_000)
}

describe.each(['notify', 'nats'] as const)('scaled out, with the %s bell', (bell) => {
  it(
    '[T1.6] [T1.4] [V1.2] loses nothing though parts are killed and then every process is replaced under load',
    { timeout: 120_000 },
    async () => {
      const database = await cluster.createDatabase()
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
      const load = startAsking(t, reader)
      onTestFinished(() => load.stop())
      await writeFile(join(t.shared, 'before.txt'), 'before')
      await reader.progress(40)

      const victims = [await slowWorker(t), t.pmos[0]!, await leaderOf(t)]
      await Promise.all(victims.map((seat) => seat.kill()))
      await writeFile(join(t.shared, 'leaderless.txt'), 'written while nobody leads')
      await t.db.query({
        text: "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'bellwether%' and datname = current_database()",
      })
      await reader.progress(20)
      await Promise.all(victims.map((seat) => seat.start()))
      expect(await t.server.replace()).toBe(0)
      await reader.progress(20)
      await knows(t, 'leaderless.txt')

      for (const seat of t.seats) {
        expect([seat.name, await seat.replace()]).toEqual([seat.name, 0])
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

      // The reader lost its line at least twice, and has seen every event, once and in order.
      const events = await t.db.query<{ cursor: string }>({
        text: "select xid::text || ':' || event_id as cursor from state.events where project_id = $1 order by xid, event_id",
        values: [t.project],
      })
      await until('the reader has caught up', async () => (reader.seen.length >= events.length ? true : undefined))
      expect(reader.seen.map(({ id }) => id)).toEqual(events.map(({ cursor }) => cursor))
      expect(reader.returns).toBeGreaterThanOrEqual(2)

      for (const file of ['before.txt', 'leaderless.txt', 'after.txt']) await knows(t, file)
      await leaderOf(t)
    },
  )
})
