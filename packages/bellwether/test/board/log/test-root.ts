/** Task roots of tests: a temporary root, ports and clocks that the test controls, locks, and a board with short leases. */
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, systemClock, systemRandom } from '@bellwether/base'
import { onTestFinished } from 'vitest'
import { openBoard, type BoardOptions } from '../../../src/board/log/board.js'
import type { LockPorts } from '../../../src/board/log/locks/locks.js'
import type { Board, TaskEvent } from '../../../src/board/log/task.js'
import { systemDisk, type Disk } from '../../../src/ports/disk/disk.js'
import { systemMachine, type Machine } from '../../../src/ports/disk/machine.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { quietLog } from '../../support/quiet-log.js'

export interface TestRoot {
  readonly path: string
  readonly log: string
  readonly snapshot: string
  readonly locks: string
  readonly lines: () => Promise<string[]>
  readonly lockNames: () => Promise<string[]>
  readonly writeLog: (content: string | Buffer | readonly object[]) => Promise<void>
  readonly writeLock: (name: string, content: string | Buffer | object) => Promise<string>
}

export async function testRoot(): Promise<TestRoot> {
  const path = await mkdtemp(join(tmpdir(), 'root-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  const locks = join(path, 'state', 'locks')
  await mkdir(locks, { recursive: true })
  const log = join(path, 'state', 'tasks.jsonl')
  return {
    path,
    log,
    locks,
    snapshot: join(path, 'state', 'tasks.snapshot.json'),
    lines: async () => (await readFile(log, 'utf8')).split('\n').slice(0, -1),
    lockNames: async () => (await readdir(locks)).sort(),
    writeLog: (content) =>
      writeFile(
        log,
        typeof content === 'string' || Buffer.isBuffer(content)
          ? content
          : content.map((one) => `${JSON.stringify(one)}\n`).join(''),
      ),
    writeLock: async (name, content) => {
      const text = typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content)
      await writeFile(join(locks, name), text)
      return join(locks, name)
    },
  }
}

export const testWorld: LockPorts = {
  disk: systemDisk,
  machine: systemMachine,
  clock: systemClock,
  ids: uuidv7(systemClock, systemRandom),
  log: quietLog,
}

/** Ports whose uptime and wall clock move separately, and only when the test says so. */
export function slowWorld(
  more: Partial<Machine> = {},
): LockPorts & { pass(ms: number): void; setWall(ms: number): void } {
  let [upMs, wallMs] = [1_000_000, Date.now()]
  const pass = (ms: number) => {
    upMs += ms
    wallMs += ms
  }
  const clock: Clock = { wallMs: () => wallMs, monotonicMs: () => upMs, sleep: async (ms) => pass(ms) }
  const machine: Machine = { ...systemMachine, uptimeMs: () => upMs, ...more }
  return { ...testWorld, clock, machine, pass, setWall: (ms) => void (wallMs = ms) }
}

/** For a machine on which the owner of every lock is dead. */
export const dead = { process: () => ({ alive: false }) }
export const past = (seconds: number) => Date.now() / 1_000 - seconds
/** The contents of a lock file that was created this long ago and expires after 30 s. */
export const lockOf = (agoSec: number, more: object = {}) => ({
  owner: 'old',
  pid: 999_999_999,
  createdAtTs: past(agoSec),
  expiresAtTs: past(agoSec - 30),
  resource: 'tasks.jsonl',
  ...more,
})

export async function boardOf(root: TestRoot | string, more: Partial<BoardOptions> = {}): Promise<Board> {
  const path = typeof root === 'string' ? root : root.path
  const board = await openBoard({ owner: 'test', ...testWorld, root: path, snapshots: false, ...more })
  onTestFinished(async () => {
    await board.close().catch(() => 'it was closed by the test')
  })
  return board
}

/** For tests that do not depend on fsync. */
export const hastyDisk: Disk = {
  ...systemDisk,
  openLog: async (path, access) => {
    const file = await systemDisk.openLog(path, access)
    return file === 'missing' ? file : { ...file, flush: async () => undefined }
  },
}

let made = 0

/** A line in the format of the reference. */
export function line(type: TaskEvent['type'], taskId = 'T-1', payload: object = {}, more: object = {}): object {
  made += 1
  const at = new Date(Date.parse('2026-01-01T00:00:00Z') + made * 1_000).toISOString()
  return { eventId: `e-${made}`, taskId, type, messageType: '[TASK]', actor: 'me', at, payload, ...more }
}

export const add = (taskId: string, payload: Readonly<Record<string, unknown>> = {}) =>
  ({ taskId, type: 'task_created', actor: 'me', payload: { title: taskId, ...payload } }) as const
