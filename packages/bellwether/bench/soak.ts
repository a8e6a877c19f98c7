/**
 * `npm run soak -- [--seconds N] [--seed N] [--writers N] [--json]`: processes change a directory at full speed while the soak
 * kills and freezes its sensors and server; then the load stops, two complete audits pass, and the soak compares the view with
 * the disk, entry by entry. Exits with 1 if anything differs. The seed repeats the attempted steps, not their interleaving.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Fleet, type Stats } from '../test/view/fleet/fleet.js'
import { onDisk, type Difference } from '../test/view/fleet/disk.js'
import { programOf } from '../test/support/process.js'
import { seededRandom } from '@bellwether/base'
import { sensorIds, startSensor, troubleFor } from './soak/sensors.js'

const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
    writers: { type: 'string', default: '3' },
    json: { type: 'boolean', default: false },
  },
})
const parseCount = (text: string, name: string): number => {
  if (/^\d+$/.test(text) && Number(text) >= 1) return Number(text)
  process.stderr.write(`--${name} must be a whole number, 1 or more\n`)
  process.exit(2)
}
const seconds = parseCount(options.seconds, 'seconds')
const seed = parseCount(options.seed, 'seed')
const writers = parseCount(options.writers, 'writers')

const writer = fileURLToPath(new URL('soak/writer.ts', import.meta.url))
const longAgo = 1_500_000_000
const auditSeconds = 4
const quietMaxMs = 90_000
const shown = 20
// All sensors together watch 120 directories.
const lateDirectories = 300
const writerEndMs = 15_000
// A short soak continues until it has seen an overflow and killed an auditor, which takes longer on a busy machine.
const overtimeMs = 300_000
// Time for settling scans, which sensors receive at once.
const settleMs = 5_000
const progress = (line: string) => void process.stderr.write(`${line}\n`)

interface Written {
  readonly done: Readonly<Record<string, number>>
  readonly lost: number
}

function startWriter(root: string, at: number) {
  const child = spawn(process.execPath, [...programOf(writer), root, String(seed * 100 + at), `w${at}`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let out = ''
  child.stdout.on('data', (data: Buffer) => (out += data.toString()))
  const closed = once(child, 'close')
  return {
    async stop(): Promise<Written> {
      child.stdin.end()
      const late = setTimeout(() => child.kill('SIGKILL'), writerEndMs)
      await closed
      clearTimeout(late)
      if (out === '') throw new Error('A writer did not end or failed; see above')
      return JSON.parse(out) as Written
    },
  }
}

/** Creates the initial tree: half of it has mtimes that are years old. */
function plant(root: string): void {
  for (let d = 0; d < 80; d += 1) {
    const directory = `${root}/d${d}`
    mkdirSync(directory)
    for (let f = 0; f < 25; f += 1) {
      writeFileSync(`${directory}/f${f}`, 'x'.repeat(f * 10))
      if (d % 2 === 0) utimesSync(`${directory}/f${f}`, longAgo + f, longAgo + f)
    }
    if (d % 2 === 0) utimesSync(directory, longAgo, longAgo)
  }
}

async function until<T>(what: string, maxMs: number, ask: () => Promise<T | undefined>): Promise<T> {
  for (const start = performance.now(); performance.now() - start < maxMs; await pause(50)) {
    const answer = await ask()
    if (answer !== undefined) return answer
  }
  throw new Error(`Not within ${maxMs} ms: ${what}`)
}

/** Waits for audits that began after `since` (server seconds) and ended. Stats show only the last one, so each is recorded. */
async function audits(fleet: Fleet, since: number, wanted: number): Promise<Stats> {
  const ended = new Set<number>()
  return until(`${wanted} audits`, quietMaxMs, async () => {
    const stats = await fleet.stats()
    if (stats === undefined || stats.is_auditing || stats.last_audit_start === null) return undefined
    if (stats.last_audit_start > since && (stats.last_audit_finished_at ?? 0) >= stats.last_audit_start)
      ended.add(stats.last_audit_start)
    return ended.size >= wanted ? stats : undefined
  })
}

/** Marks that should have expired, and blind spots that contradict the disk. */
async function marks(fleet: Fleet, until_: number) {
  const disk = onDisk(fleet.root)
  let stats = await fleet.stats()
  const start = performance.now()
  const isClean = () => stats !== undefined && stats.suspect_file_count === 0 && stats.tombstone_count === 0
  for (; !isClean() && performance.now() - start < until_; await pause(200)) stats = await fleet.stats()
  const spots = await fleet.blindSpots()
  return {
    suspects: stats?.suspect_file_count ?? -1,
    tombstones: stats?.tombstone_count ?? -1,
    blind_additions_not_on_disk: (spots?.additions ?? []).filter((path) => !disk.has(path)).slice(0, shown),
    blind_deletions_on_disk: (spots?.deletions ?? []).filter((path) => disk.has(path)).slice(0, shown),
    clean_after_ms: Math.round(performance.now() - start),
  }
}

async function soak() {
  const fleet = new Fleet({ session: 3, audit: auditSeconds, sentinel: 2, hot: 3, tombstones: 2 })
  const running: ReturnType<typeof startWriter>[] = []
  try {
    plant(fleet.root)
    await fleet.serve()
    for (const id of sensorIds) startSensor(fleet, id)
    await fleet.connected(...sensorIds)
    progress(`soak: seed ${seed}, ${writers} writers for ${seconds} s`)
    for (let at = 0; at < writers; at += 1) running.push(startWriter(fleet.root, at))
    const trouble = troubleFor(fleet, seededRandom(seed), (line) =>
      progress(`${Math.round(performance.now() / 1_000)} s: ${line}`),
    )
    const start = performance.now()
    const left = () => seconds * 1_000 - (performance.now() - start)
    let serverIsDue = seconds >= 20
    while (left() > 0 || (!trouble.isComplete() && left() > -overtimeMs)) {
      await pause(Math.max(0, Math.min(left(), 800)))
      if (left() <= 0 && trouble.isComplete()) break
      if (serverIsDue && left() < seconds * 500) {
        serverIsDue = false
        await trouble.server()
      } else await trouble.next()
    }
    const written = await Promise.all(running.splice(0).map((each) => each.stop()))
    const lasted = performance.now() - start
    progress(`soak: load stopped after ${Math.round(lasted / 1_000)} s; waiting for two audits`)
    await fleet.connected(...sensorIds)
    await newLeader(fleet)
    // Events that the sensors have seen and not yet sent would arrive after the audits.
    await until('everything seen so far is applied', quietMaxMs, () => fleet.synced())
    await audits(fleet, Date.now() / 1_000, 2)
    const first = await lastDifferences(fleet)
    let found = first
    let more = 0
    for (; found.length > 0 && more < 3; more += 1) {
      await audits(fleet, Date.now() / 1_000, 1)
      found = await lastDifferences(fleet)
    }
    const unseen = await deletedUnseen(fleet)
    const left_ = await marks(fleet, 2 * auditSeconds * 1_000 + 10_000)
    const disk = onDisk(fleet.root)
    const acts: Record<string, number> = {}
    for (const { done } of written)
      for (const [name, times] of Object.entries(done)) acts[name] = (acts[name] ?? 0) + times
    const sensors = [...fleet.sensors.values()]
    const ok =
      trouble.isComplete() &&
      first.length === 0 &&
      unseen.differences === 0 &&
      unseen.found_by_audit > 0 &&
      left_.suspects === 0 &&
      left_.tombstones === 0 &&
      left_.blind_additions_not_on_disk.length + left_.blind_deletions_on_disk.length === 0
    return {
      ok,
      seed,
      seconds: Math.round(lasted / 1_000),
      writers,
      changes: Object.values(acts).reduce((sum, times) => sum + times, 0),
      acts,
      lost_to_each_other: written.reduce((sum, { lost }) => sum + lost, 0),
      trouble: trouble.done,
      entries: disk.size,
      differences_after_two_audits: first.length,
      differences: first.slice(0, shown),
      differences_at_last: found.length,
      audits_more: more,
      deleted_unseen: unseen,
      ...left_,
      peak_memory_mb: {
        view: peak(fleet.server.pid),
        sensors: sensors.map(({ pid }) => peak(pid)).filter((mb) => mb > 0),
      },
    }
  } finally {
    // Some processes were killed on purpose; the comparison above is the result.
    await Promise.all(running.map((each) => each.stop().catch(() => undefined)))
    await fleet.end()
  }
}

/** The differences after all settling scans have finished. */
async function lastDifferences(fleet: Fleet): Promise<Difference[]> {
  const start = performance.now()
  for (;;) {
    const found = await until('the tree', 30_000, () => fleet.differences())
    if (found.length === 0 || performance.now() - start > settleMs) return found
    await pause(200)
  }
}

/**
 * Ends the leader's session, so that the next audit reads everything. Later audits of the same leader do not see an in-place
 * edit of a long-untouched file in an unwatched directory (docs/guides/sensors.md).
 */
async function newLeader(fleet: Fleet): Promise<void> {
  const leader = (await fleet.sessions()).find(({ role }) => role === 'leader')
  if (leader !== undefined) await fleet.ask(`/views/v/sessions/${leader.session_id}`, { method: 'DELETE' })
  await fleet.connected(...sensorIds)
}

/**
 * Creates more directories than all sensors watch, then deletes one entry in each: only an audit that detects missing entries
 * can find those deletions. (During the load a settling scan may find them as well.)
 */
async function deletedUnseen(fleet: Fleet) {
  const at = (directory: number, ...names: string[]) => fleet.at('late', String(directory), ...names)
  for (let d = 0; d < lateDirectories; d += 1) {
    mkdirSync(at(d), { recursive: true })
    for (const name of ['stays', 'goes']) writeFileSync(at(d, name), name)
  }
  await until('everything seen so far is applied', quietMaxMs, () => fleet.synced())
  await audits(fleet, Date.now() / 1_000, 1)
  await lastDifferences(fleet)
  for (let d = 0; d < lateDirectories; d += 1) rmSync(d % 10 === 0 ? at(d) : at(d, 'goes'), { recursive: true })
  await audits(fleet, Date.now() / 1_000, 1)
  const found = await lastDifferences(fleet)
  const listed = (await fleet.blindSpots())?.deletions.filter((path) => path.startsWith('/late/')) ?? []
  return { differences: found.length, found_by_audit: listed.length }
}

/** MB; 0 if the process has ended or the system does not report it. */
function peak(pid: number): number {
  try {
    return Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024)
  } catch {
    return 0
  }
}

const report = await soak()
process.stdout.write(`${JSON.stringify(report, undefined, options.json ? 0 : 2)}\n`)
process.exitCode = report.ok ? 0 : 1
