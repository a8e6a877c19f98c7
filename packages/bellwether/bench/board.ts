/**
 * Measures `rebuild-snapshot` on a large log against a simple Python implementation (board/baseline.py) on the same file, with
 * plain text and with many escapes; opening with and without a snapshot; and autopilot steps on a board with many tasks. Both
 * programs run as processes, alternately, and must agree on the result. The best run counts, because load only adds time.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { writeLog, writeWaiting } from './board/log.js'
import { machine } from './machine.js'

export interface BoardBenchOptions {
  readonly quick: boolean
  readonly onProgress: (line: string) => void
}

interface Pass {
  readonly wallMs: number
  readonly cpuMs: number
  readonly peakRssMb: number
  readonly answer: Readonly<Record<string, unknown>>
}

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
const memoryMaxMb = 500

/** Runs a program to its end and measures it. */
async function measure(command: string, words: readonly string[]): Promise<Pass> {
  const startedMs = performance.now()
  const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.on('data', (data: Buffer) => (out += data.toString()))
  const usage = watch(child.pid!)
  const [code] = (await once(child, 'close')) as [number | null]
  const wallMs = performance.now() - startedMs
  if (code !== 0) throw new Error(`${command} ${words.join(' ')} ended with ${code}`)
  return { wallMs, ...usage.stop(), answer: JSON.parse(out) as Record<string, unknown> }
}

const ticksMs = 10 // USER_HZ is 100
const lookEveryMs = 5

/** Samples peak memory and CPU time of a process from /proc until it exits. */
function watch(pid: number): { stop(): { cpuMs: number; peakRssMb: number } } {
  let [cpuMs, peakRssMb] = [0, 0]
  const look = async () => {
    const [stat, status] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''),
      readFile(`/proc/${pid}/status`, 'utf8').catch(() => ''),
    ])
    const words = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (words.length > 12) cpuMs = (Number(words[11]) + Number(words[12])) * ticksMs
    peakRssMb = Math.max(peakRssMb, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024)
  }
  const timer = setInterval(() => void look(), lookEveryMs)
  return {
    stop: () => {
      clearInterval(timer)
      return { cpuMs, peakRssMb: Math.round(peakRssMb) }
    },
  }
}

const best = (passes: readonly Pass[]) => ({
  seconds: Math.round(Math.min(...passes.map((pass) => pass.wallMs))) / 1_000,
  cpu_seconds: Math.min(...passes.map((pass) => pass.cpuMs)) / 1_000,
  peak_rss_mb: Math.max(...passes.map((pass) => pass.peakRssMb)),
})

const median = (all: readonly number[]) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)]!
const source = ['--import', tsx, '--conditions=@bellwether/source']

/** Opens the root in separate processes; the best run counts. */
async function opening(
  root: string,
  rounds: number,
): Promise<{ seconds: number; cpu_seconds: number; rss_mb: number }> {
  const results: Record<'ms' | 'cpuMs' | 'rssMb', number>[] = []
  for (let round = 0; round < rounds; round += 1) {
    const { answer } = await measure(process.execPath, [...source, here('./board/open.ts'), root])
    results.push(answer as (typeof results)[number])
  }
  return {
    seconds: Math.round(Math.min(...results.map(({ ms }) => ms))) / 1_000,
    cpu_seconds: Math.round(Math.min(...results.map(({ cpuMs }) => cpuMs))) / 1_000,
    rss_mb: Math.round(median(results.map(({ rssMb }) => rssMb))),
  }
}

async function steps(tasks: number): Promise<object> {
  const root = await mkdtemp(join(tmpdir(), 'bench-board-'))
  try {
    await mkdir(join(root, 'state', 'locks'), { recursive: true })
    await writeWaiting(join(root, 'state', 'tasks.jsonl'), tasks)
    return (await measure(process.execPath, [...source, here('./board/step.ts'), root])).answer
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

export async function benchBoard({ quick, onProgress }: BoardBenchOptions): Promise<object> {
  const plain = await rebuilds({ quick, onProgress }, false)
  const escapes = await rebuilds({ quick, onProgress }, true)
  const step = await steps(quick ? 10_000 : 100_000)
  return { ...plain, escaped: { figures: escapes.figures, ratios: escapes.ratios }, step }
}

async function rebuilds({ quick, onProgress }: BoardBenchOptions, isEscaped: boolean) {
  const events = quick ? 100_000 : 1_000_000
  const rounds = quick ? 2 : 3
  const root = await mkdtemp(join(tmpdir(), 'bench-board-'))
  try {
    await mkdir(join(root, 'state', 'locks'), { recursive: true })
    const log = join(root, 'state', 'tasks.jsonl')
    onProgress(`writing ${events} events`)
    await writeLog(log, events, isEscaped)
    // The built program as installed; from source if there is none.
    const built = here('../dist/cli/main.js')
    const isBuilt = (await readFile(built).catch(() => '')) !== ''
    const program = isBuilt ? [built] : ['--import', tsx, '--conditions=@bellwether/source', here('../src/cli/main.ts')]
    const [ours, applied, python]: [Pass[], Pass[], Pass[]] = [[], [], []]
    for (let round = 1; round <= rounds; round += 1) {
      const words = [...program, 'rebuild-snapshot', '--root', root, '--json']
      ours.push(await measure(process.execPath, words))
      applied.push(await measure(process.execPath, [...words, '--apply']))
      python.push(await measure('python3', [here('./board/baseline.py'), log]))
      const results = [ours, applied, python].map((passes) => `${Math.round(passes.at(-1)!.wallMs)} ms`)
      onProgress(`round ${round}: rebuild ${results[0]}, with --apply ${results[1]}, python ${results[2]}`)
    }
    agree(ours[0]!.answer, python[0]!.answer, events)
    const [resumed, replayed] = isEscaped ? [null, null] : await openings(root, rounds)
    const opens = resumed === null || replayed === null ? {} : { open_replay: replayed, open_snapshot: resumed }
    const figures = { rebuild: best(ours), rebuild_apply: best(applied), python: best(python), ...opens }
    const ratio = (a: number, b: number) => Math.round((a / b) * 100) / 100
    return {
      bench: 'board',
      quick,
      events,
      rounds,
      program: isBuilt ? 'built' : 'source',
      machine: machine(),
      figures,
      ratios: {
        rebuild_vs_python: ratio(figures.python.seconds, figures.rebuild.seconds),
        rebuild_apply_vs_python: ratio(figures.python.seconds, figures.rebuild_apply.seconds),
        rebuild_vs_python_cpu: ratio(figures.python.cpu_seconds, figures.rebuild.cpu_seconds),
      },
      memory_within_500_mb: Math.max(figures.rebuild.peak_rss_mb, figures.rebuild_apply.peak_rss_mb) < memoryMaxMb,
    }
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

/** With the snapshot of the last rebuild, and without one. */
async function openings(root: string, rounds: number) {
  const resumed = await opening(root, rounds)
  await rm(join(root, 'state', 'tasks.snapshot.json'))
  return [resumed, await opening(root, rounds)] as const
}

function agree(ours: Pass['answer'], python: Pass['answer'], events: number): void {
  const meta = ours['meta'] as { readonly updatedAt: string }
  const same =
    ours['events'] === events &&
    python['events'] === events &&
    ours['tasks'] === python['tasks'] &&
    meta.updatedAt === python['updatedAt']
  if (!same) throw new Error('the two do not agree on what the log says')
}
