/** A directory, a fake server and sensors for one test; `end` removes and stops all of them. */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Log, systemClock } from '@bellwether/base'
import { decodeFileName } from '@bellwether/protocol'
import { startSensor, type Sensor, type SensorOptions } from '../../src/sensor.js'
import { FakeServer, type FakeServerOptions } from './fake-server.js'

export interface Line {
  readonly level: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly message: string
}

export interface Fixture {
  readonly root: string
  readonly server: FakeServer
  readonly lines: Line[]
  readonly log: Log
  sensor(options?: Partial<SensorOptions>): Sensor
  at(...names: string[]): string
  end(): Promise<void>
}

/** Every condition has at least two minutes: a busy machine is not a failure. */
const leastMs = 120_000

export async function until<T>(what: string, ask: () => T | undefined | false, atLeastMs = leastMs): Promise<T> {
  const withinMs = Math.max(leastMs, atLeastMs)
  const startedMs = systemClock.monotonicMs()
  for (;;) {
    const answer = ask()
    if (answer !== undefined && answer !== false) return answer
    if (systemClock.monotonicMs() - startedMs > withinMs) throw new Error(`Not within ${withinMs} ms: ${what}`)
    await systemClock.sleep(20)
  }
}

export function recordingLog(lines: Line[]): Log {
  const at = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, fields: { ...fields }, message })
  return { info: at('info'), warn: at('warn'), error: at('error'), fatal: at('fatal') }
}

export async function openFixture(options: FakeServerOptions = {}): Promise<Fixture> {
  const root = mkdtempSync(join(tmpdir(), 'bw-sensor-'))
  const server = await new FakeServer(options).start()
  const sensors: Sensor[] = []
  const lines: Line[] = []
  const log = recordingLog(lines)
  return {
    root,
    server,
    lines,
    log,
    at: (...names) => join(root, ...names),
    sensor(more = {}) {
      const sensor = startSensor({ root, server: server.url, keys: ['k'], id: 'host-1', log, scanThreads: 1, ...more })
      sensors.push(sensor)
      return sensor
    },
    async end() {
      await Promise.all(sensors.map((sensor) => sensor.stop()))
      await server.stop()
      rmSync(root, { recursive: true, force: true })
    },
  }
}

/** The entries on disk: path → kind, size and mtime. */
function onDisk(root: string): Map<string, string> {
  const found = new Map<string, string>()
  const walk = (bytes: Buffer, path: string) => {
    for (const name of readdirSync(bytes, { encoding: 'buffer' })) {
      const full = Buffer.concat([bytes, Buffer.from('/'), name])
      const child = `${path}/${decodeFileName(name)}`
      const stat = lstatSync(full)
      const kind = stat.isSymbolicLink() ? 'symlink' : 'file'
      found.set(child, stat.isDirectory() ? 'directory' : `${kind} ${stat.size} ${(stat.mtimeMs / 1_000).toFixed(2)}`)
      if (stat.isDirectory()) walk(full, child)
    }
  }
  walk(Buffer.from(root), '')
  return found
}

function inView(server: FakeServer): Map<string, string> {
  const found = new Map<string, string>()
  for (const [path, row] of server.tree) {
    if (path === '/') continue
    const time = (row.modified_time ?? 0).toFixed(2)
    found.set(
      path,
      row.is_directory === true ? 'directory' : `${row.is_symlink === true ? 'symlink' : 'file'} ${row.size} ${time}`,
    )
  }
  return found
}

/** The differences between disk and view; empty if they are equal. */
export function differences(server: FakeServer, root: string): string[] {
  const [disk, view] = [onDisk(root), inView(server)]
  const wrong: string[] = []
  for (const [path, entry] of disk) if (view.get(path) !== entry) wrong.push(`${path}: ${entry} ≠ ${view.get(path)}`)
  for (const path of view.keys()) if (!disk.has(path)) wrong.push(`${path}: not on disk`)
  return wrong
}

export const same = (fixture: Fixture, withinMs?: number): Promise<true> =>
  until('view equals disk', () => differences(fixture.server, fixture.root).length === 0, withinMs).catch(
    (error: unknown) => {
      throw new Error(`${String(error)}\n${differences(fixture.server, fixture.root).slice(0, 10).join('\n')}`)
    },
  )

let barriers = 0
/** Resolves when everything that happened before the call has arrived at the server. */
export async function barrier(server: FakeServer): Promise<void> {
  const id = `b${(barriers += 1)}`
  server.command({ type: 'barrier', barrier_id: id })
  await until(`barrier ${id}`, () => server.confirmed.includes(id))
}
