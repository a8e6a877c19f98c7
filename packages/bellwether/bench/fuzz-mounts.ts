/**
 * `npm run fuzz:mounts -- [--runs N] [--rounds N] [--steps N] [--seed N] [--json]`: changes one directory through the mounts of
 * three hosts with a sensor each and of one without, while sensors are killed and frozen and the server is restarted. It checks
 * the invariants of the view after each step. At the end of a round one audit passes, and the view must equal the disk. Exits
 * with 1 and prints seed and steps if it does not. The seed repeats the steps, not their timing.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { errorStack, seededRandom, type SeededRandom } from '@bellwether/base'
import { Fleet } from '../test/view/fleet/fleet.js'
import type { Difference } from '../test/view/fleet/disk.js'
import { until } from '../test/support/until.js'
import { mountHosts, type Hosts } from './mounts/hosts.js'
import { openOperations } from './mounts/operations.js'

const { values: options } = parseArgs({
  options: {
    runs: { type: 'string', default: '20' },
    rounds: { type: 'string', default: '3' },
    steps: { type: 'string', default: '12' },
    seed: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
  },
})
const parseCount = (name: 'runs' | 'rounds' | 'steps' | 'seed'): number => {
  const text = options[name]
  if (/^\d+$/.test(text) && Number(text) >= 1) return Number(text)
  process.stderr.write(`--${name} must be a whole number, 1 or more\n`)
  process.exit(2)
}
const [runs, rounds, steps] = [parseCount('runs'), parseCount('rounds'), parseCount('steps')]
const firstSeed = parseCount('seed')
const hostNames = ['a', 'b', 'c'] as const
// No sensor runs there, so only audits find its changes.
const unwatchedHost = 'd'
type HostName = (typeof hostNames)[number]
const sessionSeconds = 3
// Longer than a run: audits happen when the fuzz or a new leader starts them.
const auditSeconds = 3_600
const changesPerStep = 12
// Longer than the session timeout, so that some freezes end a session.
const freezeMaxMs = 4_000
const shownDifferences = 10
const progress = (line: string) => void process.stderr.write(`${line}\n`)

interface RunReport {
  readonly seed: number
  readonly ok: boolean
  readonly mounts: string
  readonly changes: number
  readonly lost: number
  readonly faults: Readonly<Record<string, number>>
  readonly problems: readonly string[]
  readonly differences: readonly Difference[]
  readonly seconds: number
}

/** Kills, freezes and restarts processes. Every process runs again after `resume`. */
function openFaults(fleet: Fleet, hosts: Hosts, chance: SeededRandom) {
  const done: Record<string, number> = {}
  const frozen = new Set<HostName>()
  const dead = new Set<HostName>()
  const start = (host: HostName) =>
    void fleet.sensor(host, { root: hosts.roots[hostNames.indexOf(host)]!, args: ['--threads', '1'] })

  async function kill(host: HostName): Promise<void> {
    const cli = fleet.sensors.get(host)!
    cli.signal('SIGKILL')
    await cli.ended
    frozen.delete(host)
    dead.add(host)
  }
  function revive(): void {
    for (const host of dead) start(host)
    dead.clear()
  }
  function freeze(host: HostName): void {
    if (dead.has(host)) return
    fleet.sensors.get(host)!.signal('SIGSTOP')
    frozen.add(host)
  }
  function thaw(): void {
    for (const host of frozen) fleet.sensors.get(host)!.signal('SIGCONT')
    frozen.clear()
  }
  const some = (): HostName => chance.pick(hostNames)
  const faults: Readonly<Record<string, () => Promise<unknown> | void>> = {
    kill_a_sensor: () => kill(some()),
    async kill_the_leader() {
      const leader = await fleet.leader()
      await kill(hostNames.find((host) => host === leader) ?? some())
    },
    start_dead_sensors: revive,
    freeze_a_sensor: () => freeze(some()),
    continue_frozen_sensors: thaw,
    async freeze_and_continue() {
      freeze(some())
      await pause(chance.below(freezeMaxMs))
      thaw()
    },
    async freeze_the_server() {
      fleet.server.signal('SIGSTOP')
      await pause(chance.below(freezeMaxMs / 2))
      fleet.server.signal('SIGCONT')
    },
    async kill_the_server() {
      fleet.server.signal('SIGKILL')
      await fleet.server.ended
      await fleet.serve()
    },
    async end_a_session() {
      const sessions = await fleet.sessions()
      if (sessions.length > 0)
        await fleet.ask(`/views/v/sessions/${chance.pick(sessions).session_id}`, { method: 'DELETE' })
    },
    audit: () => fleet.check('audit'),
    scan_on_demand: () => fleet.ask('/views/v/tree?path=/&max_depth=0&force-real-time=true&wait=2'),
  }
  const names = Object.keys(faults)
  return {
    done,
    start,
    async next(): Promise<string> {
      const name = chance.pick(names)
      done[name] = (done[name] ?? 0) + 1
      await faults[name]!()
      return `fault ${name}`
    },
    resume() {
      thaw()
      revive()
    },
  }
}

/** Waits for one audit that begins now and for the scans that it requests. */
async function oneAudit(fleet: Fleet): Promise<void> {
  const { audit_cycle_count: before } = await until('stats', fleet.stats)
  await fleet.check('audit')
  await until('one audit', async () => ((await fleet.stats())?.audit_cycle_count ?? 0) > before || undefined)
  await until('the scans after the audit', async () => (await fleet.check<boolean>('quiet')) || undefined)
}

async function run(seed: number): Promise<RunReport> {
  const began = performance.now()
  const chance = seededRandom(seed)
  const fleet = new Fleet({ session: sessionSeconds, audit: auditSeconds, sentinel: 1, hot: 2, checked: true })
  const hosts = mountHosts(fleet.root, fleet.folder, [...hostNames, unwatchedHost])
  const log: string[] = []
  const problems: string[] = []
  let differences: readonly Difference[] = []
  const operations = openOperations(fleet.root, chance)
  const faults = openFaults(fleet, hosts, chance)
  if (hosts.reason !== undefined)
    progress(`!! no FUSE mounts, so every host sees every change: ${hosts.reason}. Install bindfs and run as root.`)
  try {
    await fleet.serve()
    for (const host of hostNames) faults.start(host)
    await fleet.connected(...hostNames)
    for (let round = 1; round <= rounds && problems.length + differences.length === 0; round += 1) {
      log.push(`round ${round}`)
      await changeAndDisturb()
      faults.resume()
      await fleet.connected(...hostNames)
      await pause(hosts.cacheMs)
      await until('everything seen so far is applied', () => fleet.synced())
      await oneAudit(fleet)
      differences = await until('the tree', () => fleet.differences())
      problems.push(...(await fleet.check<string[][]>('check')).flat())
    }
  } catch (error) {
    problems.push(errorStack(error))
  } finally {
    await fleet.end(() => hosts.unmount())
  }

  async function changeAndDisturb(): Promise<void> {
    // Without faults no sensor reads everything again, so the audit relies on what the last one remembered.
    const isCalm = chance.below(3) === 0
    for (let step = 0; step < steps && problems.length === 0; step += 1) {
      for (let left = 1 + chance.below(changesPerStep); left > 0; left -= 1) {
        const host = chance.below(hosts.roots.length)
        log.push(operations.next(hosts.roots[host]!, hostNames[host] ?? unwatchedHost))
      }
      if (!isCalm && chance.below(3) === 0) log.push(await faults.next())
      else await pause(chance.below(300))
      problems.push(...(await fleet.check<string[][]>('check')).flat())
    }
  }

  const ok = problems.length === 0 && differences.length === 0
  if (!ok) {
    progress(`!! seed ${seed} failed. Steps:\n${log.join('\n')}`)
    progress(`server: ${fleet.server.stderr().slice(-4_000)}`)
    for (const [host, cli] of fleet.sensors) progress(`sensor ${host}: ${cli.stderr().slice(-3_000)}`)
    progress(`!! seed ${seed}: ${JSON.stringify({ problems, differences: differences.slice(0, shownDifferences) })}`)
  }
  return {
    seed,
    ok,
    mounts: hosts.kind,
    changes: Object.values(operations.done).reduce((sum, count) => sum + count, 0),
    lost: operations.lost(),
    faults: faults.done,
    problems,
    differences: differences.slice(0, shownDifferences),
    seconds: Math.round((performance.now() - began) / 100) / 10,
  }
}

const reports: RunReport[] = []
for (let at = 0; at < runs; at += 1) {
  const report = await run(firstSeed + at)
  reports.push(report)
  const { seed, ok, changes, faults, seconds } = report
  const faultCount = Object.values(faults).reduce((sum, count) => sum + count, 0)
  progress(`seed ${seed}: ${ok ? 'equal' : 'FAILED'}, ${changes} changes, ${faultCount} faults, ${seconds} s`)
}
const failed = reports.filter(({ ok }) => !ok)
if (options.json) process.stdout.write(`${JSON.stringify(reports)}\n`)
else
  process.stdout.write(
    `${reports.length - failed.length} of ${reports.length} runs ended with the view equal to the disk\n`,
  )
process.exitCode = failed.length === 0 ? 0 : 1
