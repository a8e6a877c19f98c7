/**
 * What happens to the processes of a soak while files change: killed (one of them in the middle of an audit), frozen while a
 * burst overflows the kernel's queue, sessions ended, the server killed. Always: afterwards every process runs again.
 */
import { mkdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type { Fleet, SessionFacts } from '../../test/view/fleet/fleet.js'
import type { Chance } from './chance.js'

export const sensorIds = ['first', 'second', 'third'] as const
// Fewer than there are directories: the others are seen by audits only.
const watchMax = { first: '40', second: '50', third: '30' } as const
// The kernel's queue holds 16,384 events; each file makes four.
const burstFiles = 6_000
const auditMaxMs = 3_000

/** A writer may have moved the directory away: then the rest of the burst goes into another of its name. */
function burst(directory: string, name: string): void {
  try {
    writeFileSync(`${directory}/${name}`, 'burst')
  } catch {
    mkdirSync(directory, { recursive: true })
  }
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
  fleet.sensor(id, { words: ['--watch-max', watchMax[id], '--threads', '1'] })
}

export interface Trouble {
  /** What was done, and how often. */
  readonly done: Record<string, number>
  next(): Promise<void>
  server(): Promise<void>
}

export function troubleFor(fleet: Fleet, chance: Chance, tell: (line: string) => void): Trouble {
  const done: Record<string, number> = {}
  const count = (name: string) => void (done[name] = (done[name] ?? 0) + 1)
  const some = () => chance.pick(sensorIds)

  async function killed(id: (typeof sensorIds)[number]): Promise<void> {
    const cli = fleet.sensors.get(id)!
    cli.signal('SIGKILL')
    await cli.ended
    await pause(chance.below(1_500))
    startSensor(fleet, id)
  }

  const acts = {
    async kill_a_sensor() {
      await killed(some())
    },
    async kill_an_audit() {
      for (const start = performance.now(); performance.now() - start < auditMaxMs; await pause(5)) {
        if ((await fleet.stats())?.is_auditing !== true) continue
        const leader = sensorIds.find((id) => id === known)
        if (leader === undefined) return false
        await killed(leader)
        return true
      }
      return false
    },
    async freeze_and_overflow() {
      const cli = fleet.sensors.get(some())!
      const directory = fleet.at(`burst-${done['freeze_and_overflow'] ?? 0}`)
      mkdirSync(directory, { recursive: true })
      // Once this has passed, the directory is watched: what follows is in the queue of the one that sleeps.
      await fleet.ask('/views/v/sync?wait=3')
      cli.signal('SIGSTOP')
      try {
        for (let at = 0; at < burstFiles; at += 1) burst(directory, String(at))
        // Some of them go again before anybody has seen them.
        if (chance.next() < 0.5) for (let at = 0; at < burstFiles; at += 1) unlinked(`${directory}/${at}`)
        await pause(chance.below(4_000))
      } finally {
        cli.signal('SIGCONT')
      }
    },
    async end_a_session() {
      const sessions = await fleet.sessions()
      if (sessions.length === 0) return false
      const { session_id: id } = chance.pick<SessionFacts>(sessions)
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
  let known: string | undefined
  let turn = 0

  return {
    done,
    async next() {
      known = (await fleet.leader()) ?? known
      // Each once, in order; then by chance.
      const name = turn < names.length ? names[turn]! : chance.pick(names)
      turn += 1
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
