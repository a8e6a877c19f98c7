/**
 * Many processes write to one root while some of them are stopped beyond their lease or killed in the middle of a write.
 * The verdict comes from the log, with a separate fold: every acknowledged event counts once, and the
 * counted numbers are 1, 2, 3, … without gap or repetition, so no write was decided on an old state.
 * As a command: tsx --conditions=@bellwether/source packages/bellwether/test/board/log/contest.ts --seconds 30
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFile, readdir, rm } from 'node:fs/promises'
import { mkdtemp } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { systemClock, systemRandom } from '@bellwether/base'
import { openBoard } from '../../../src/board/log/board.js'
import { generations } from '../../../src/board/log/locks/locks.js'
import { Reader } from '../../../src/board/log/fold/replay.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { quietLog } from '../../support/quiet-log.js'

const writer = fileURLToPath(new URL('./contest-writer.ts', import.meta.url))
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
const [ttlMs, graceMs] = [150, 50]
// Longer than lease and grace period: a process that resumes finds another holder.
const stopMs = 400
export const fewestAcknowledged = 10

export interface ContestReport {
  readonly processes: number
  readonly seconds: number
  readonly acknowledged: number
  readonly counted: number
  readonly stopped: number
  readonly killed: number
  readonly fences: number
  readonly staleLines: number
  /** What must be empty. */
  readonly lost: readonly string[]
  readonly outOfStep: readonly number[]
  readonly crashed: readonly string[]
}

interface Writer {
  readonly child: ChildProcess
  readonly ready: Promise<unknown>
  readonly ended: Promise<unknown>
  output: string
  complained: string
  killed: boolean
}

function startWriter(root: string, name: string): Writer {
  const words = ['--import', tsx, '--conditions=@bellwether/source', writer, root, name, `${ttlMs}`, `${graceMs}`]
  const child = spawn(process.execPath, words, { stdio: 'pipe' })
  const one: Writer = {
    child,
    output: '',
    complained: '',
    killed: false,
    ready: once(child.stdout, 'data'),
    ended: once(child, 'close'),
  }
  child.stdout.on('data', (data: Buffer) => (one.output += data.toString()))
  child.stderr.on('data', (data: Buffer) => (one.complained += data.toString()))
  child.stdin.on('error', () => undefined) // EPIPE after it died; its exit is handled below
  return one
}

/** The process that holds the newest lock. */
async function holder(locks: string): Promise<number | undefined> {
  const top = generations(await readdir(locks)).at(-1)
  if (top?.kind !== 'lock') return undefined
  const text = await readFile(join(locks, top.name), 'utf8').catch(() => '')
  return text === '' ? undefined : (JSON.parse(text) as { pid: number }).pid
}

export async function contest(processes: number, seconds: number): Promise<ContestReport> {
  const root = await mkdtemp(join(tmpdir(), 'contest-'))
  const writers: Writer[] = []
  try {
    const board = await openBoard({
      root,
      owner: 'referee',
      clock: systemClock,
      ids: uuidv7(systemClock, systemRandom),
      log: quietLog,
      snapshots: false,
    })
    await board.write(() => [
      { taskId: 'counter', type: 'task_created', actor: 'referee', payload: { title: 'counter' } },
    ])
    await board.close()
    for (let at = 0; at < processes; at += 1) writers.push(startWriter(root, `writer-${at}`))
    await Promise.all(writers.map((one) => one.ready))
    const { stopped, killed } = await disturb(root, writers, seconds)
    for (const one of writers) one.child.stdin!.end()
    await Promise.all(writers.map((one) => one.ended))
    return { processes, seconds, stopped, killed, ...(await judge(root, writers)) }
  } finally {
    for (const one of writers) one.child.kill('SIGKILL')
    await Promise.all(writers.map((one) => one.ended))
    await rm(root, { recursive: true, force: true })
  }
}

async function disturb(root: string, writers: Writer[], seconds: number): Promise<{ stopped: number; killed: number }> {
  const endMs = systemClock.monotonicMs() + seconds * 1_000
  const waking: Promise<void>[] = []
  let [stopped, killed] = [0, 0]
  const asleep = new Set<number>()
  // On a busy machine processes write little while they are disturbed: go on until there is something to judge.
  while (systemClock.monotonicMs() < endMs || acknowledgedBy(writers).length <= fewestAcknowledged) {
    const pid = await holder(join(root, 'state', 'locks'))
    const one = writers.find(({ child }) => child.pid === pid)
    if (one !== undefined && !asleep.has(pid!) && asleep.size < 3) {
      one.child.kill('SIGSTOP')
      stopped += 1
      asleep.add(pid!)
      const kill = stopped % 5 === 0
      waking.push(
        systemClock.sleep(stopMs).then(() => {
          asleep.delete(pid!)
          if (kill) {
            one.killed = true
            one.child.kill('SIGKILL')
            writers.push(startWriter(root, `late-${stopped}`))
            killed += 1
          }
          one.child.kill('SIGCONT')
        }),
      )
      await systemClock.sleep(90)
    } else await systemClock.sleep(1)
  }
  await Promise.all(waking)
  return { stopped, killed }
}

/** The ids of the events that writers report as stored. */
const acknowledgedBy = (writers: readonly Writer[]) =>
  writers.flatMap(({ output }) => output.split('\n').filter((line) => line.includes('-')))

async function judge(
  root: string,
  writers: readonly Writer[],
): Promise<Omit<ContestReport, 'processes' | 'seconds' | 'stopped' | 'killed'>> {
  const log = await systemDisk.openLog(join(root, 'state', 'tasks.jsonl'), 'read')
  if (log === 'missing') throw new Error('the log is gone')
  const reader = new Reader()
  const outOfStep: number[] = []
  let [counted, fences, last] = [0, 0, 0]
  await reader.read(log, {
    complete: true,
    onCounted: (bytes, start, end) => {
      const event = JSON.parse(bytes.toString('utf8', start, end)) as { type: string; payload: { count?: number } }
      if (event.type === 'board_control') fences += 1
      if (event.type !== 'task_noted') return
      counted += 1
      if (event.payload.count !== last + 1) outOfStep.push(event.payload.count ?? -1)
      last = event.payload.count ?? -1
    },
  })
  await log.close()
  const acknowledged = acknowledgedBy(writers)
  const lost = acknowledged.filter((eventId) => reader.fold.placeOf(eventId) === undefined)
  const crashed = writers.filter((one) => !one.killed && one.child.exitCode !== 0).map((one) => one.complained)
  const staleLines = reader.report.counts.stale_token ?? 0
  return { acknowledged: acknowledged.length, counted, fences, staleLines, lost, outOfStep, crashed }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: { seconds: { type: 'string', default: '30' }, processes: { type: 'string', default: '8' } },
  })
  const report = await contest(Number(values.processes), Number(values.seconds))
  process.stdout.write(`${JSON.stringify(report)}\n`)
  const { lost, outOfStep, crashed } = report
  process.exit(lost.length + outOfStep.length + crashed.length === 0 ? 0 : 1)
}
