/**
 * Injects faults into the processes of a soak: kills sensors (one during an audit), freezes one while a burst overflows the
 * kernel's queue, ends sessions and kills the server. Every process runs again afterwards.
 */
import { readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type { Fleet, SessionInfo } from '../../test/view/fleet/fleet.js'
import type { SeededRandom } from '@bellwether/base'

export const sensorIds = ['first', 'second', 'third'] as const
// Fewer than there are directories: only audits see the others.
const watchMax = { first: '40', second: '50', third: '30' } as const
// Each file causes at least three events (created, written, closed); some files stay for the view to find.
const burstFiles = Math.ceil(queueLength() / 3) + 500
const burstKept = 50
// Longer than one audit interval.
const auditMaxMs = 20_000
// A resumed sensor reports an overflow within this time.
const overflowMaxMs = 15_000

/** The size of the kernel's event queue. */
function queueLength(): number {
  return Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'))
}

function unlinked(file: string): boolean {
  try {
    unlinkSync(file)
    return true
  } catch {
    return false // a writer was faster
  }
}

export function startSensor(fleet: Fleet, id: (typeof sensorIds)[number]): void {
  fleet.sensor(id, { args: ['--watch-max', watchMax[id], '--threads', '1'] })
}

export interface Trouble {
  /** The number of faults per kind. */
  readonly done: Record<string, number>
  /** Whether each required fault has been injected. */
  isComplete(): boolean
  next(): Promise<void>
  server(): Promise<void>
}

export function troubleFor(fleet: Fleet, chance: SeededRandom, tell: (line: string) => void): Trouble {
  const done: Record<string, number> = {}
  const count = (name: string) => void (done[name] = (done[name] ?? 0) + 1)
  const some = () => chance.pick(sensorIds)
  let bursts = 0
  /** The overflows in the sensor's last heartbeat; undefined if it does not watch yet. */
  const overflowsOf = async (id: string) => {
    const found = (await fleet.sessions()).find(({ agent_id: agent }) => agent === id)
    return found?.can_realtime === true ? found.agent_status?.source.overflows : undefined
  }

  async function killed(id: (typeof sensorIds)[number]): Promise<void> {
    const cli = fleet.sensors.get(id)!
    cli.signal('SIGKILL')
    await cli.ended
    await pause(chance.below(1_500))
    startSensor(fleet, id)
  }

  const acts = {
    /** Counted only if the sensor reports lost events. Uses the root, which is always watched. */
    async freeze_and_overflow() {
      const id = some()
      const cli = fleet.sensors.get(id)!
      const before = await overflowsOf(id)
      if (before === undefined) return false
      bursts += 1
      cli.signal('SIGSTOP')
      try {
        for (let at = 0; at < burstFiles; at += 1) writeFileSync(fleet.at(`burst-${bursts}-${at}`), 'burst')
        // Most files are removed before the frozen sensor has seen them.
        for (let at = burstKept; at < burstFiles; at += 1) unlinked(fleet.at(`burst-${bursts}-${at}`))
        await pause(chance.below(4_000))
      } finally {
        cli.signal('SIGCONT')
      }
      for (const start = performance.now(); performance.now() - start < overflowMaxMs; await pause(100))
        if (((await overflowsOf(id)) ?? 0) > before) return true
      return false
    },
    /** Counted only if the audit is still open while its leader is frozen, so that no end can arrive. */
    async kill_an_audit() {
      for (const start = performance.now(); performance.now() - start < auditMaxMs; await pause(5)) {
        if ((await fleet.stats())?.is_auditing !== true) continue
        const leader = await fleet.leader()
        const id = sensorIds.find((each) => each === leader)
        if (id === undefined) continue
        const cli = fleet.sensors.get(id)!
        cli.signal('SIGSTOP')
        // Its last request may still arrive.
        await pause(100)
        if ((await fleet.stats())?.is_auditing === true) {
          await killed(id)
          return true
        }
        cli.signal('SIGCONT')
      }
      return false
    },
    async kill_a_sensor() {
      await killed(some())
    },
    async end_a_session() {
      const sessions = await fleet.sessions()
      if (sessions.length === 0) return false
      const { session_id: id } = chance.pick<SessionInfo>(sessions)
      await fleet.ask(`/views/v/sessions/${id}`, { method: 'DELETE' })
    },
    async freeze_the_server() {
      fleet.server.signal('SIGSTOP')
      await pause(chance.below(2_000))
      fleet.server.signal('SIGCONT')
    },
    async scan_on_demand() {
      await fleet.ask('/views/v/tree?path=/&max_depth=0&force-real-time=true&wait=5')
    },
  } satisfies Record<string, () => Promise<boolean | void>>
  type Name = keyof typeof acts
  const names = Object.keys(acts) as Name[]
  const must: readonly Name[] = ['freeze_and_overflow', 'kill_an_audit']
  let turn = 0

  return {
    done,
    isComplete: () => must.every((name) => (done[name] ?? 0) > 0),
    async next() {
      // Required faults first, then each fault once in order, then random ones.
      const name = must.find((each) => done[each] === undefined) ?? names[turn] ?? chance.pick(names)
      if (names[turn] === name) turn += 1
      tell(name)
      const act: () => Promise<boolean | void> = acts[name]
      if ((await act()) !== false) count(name)
    },
    async server() {
      tell('kill_the_server')
      fleet.server.signal('SIGKILL')
      await fleet.server.ended
      await fleet.serve()
      count('kill_the_server')
    },
  }
}
