/**
 * The command line as a real child process. Always: what it said on stderr is kept for whoever asks why;
 * no child outlives the test, because its stdin is a pipe from us.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { until } from './until.js'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
// By its path: the children run in folders from where packages cannot be found.
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
/** What node runs to be this script, from source. */
export const programOf = (script: string): readonly string[] => [
  '--import',
  tsx,
  '--conditions=@bellwether/source',
  script,
]
/** What node runs to be the command line, from source. */
export const program = programOf(main)
/** As `npm test` has just built it; a build of one's own may be old. */
const built = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const isFresh = process.env['BELLWETHER_TEST_BUILT'] === '1'

/** What node runs to be the command line: the build where there is a fresh one, because it starts in a third of the time. */
export function programFor(words: readonly string[]): readonly string[] {
  // Agents in TypeScript import our sources: they must meet the same modules there.
  return isFresh && !words.some((word) => word.endsWith('.ts')) ? [built] : program
}

export interface Cli {
  readonly child: ChildProcess
  readonly pid: number
  readonly ended: Promise<number | NodeJS.Signals | null>
  alive(): boolean
  stdout(): string
  stderr(): string
  /** The first line on stdout, as JSON. */
  ready(withinMs?: number): Promise<Readonly<Record<string, unknown>>>
  signal(name: NodeJS.Signals): void
}

export interface CliOptions {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
  /** What node runs instead of the command line. */
  readonly program?: readonly string[]
  /** The user to run as; needs root. */
  readonly uid?: number
}

export function runCli(
  words: readonly string[],
  { cwd, env = {}, program: run = programFor(words), uid }: CliOptions,
): Cli {
  const child = spawn(process.execPath, [...run, ...words], {
    cwd,
    env: { ...process.env, ...env },
    stdio: 'pipe',
    ...(uid === undefined ? {} : { uid }),
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (data: Buffer) => (stdout += data.toString()))
  child.stderr.on('data', (data: Buffer) => (stderr = (stderr + data.toString()).slice(-100_000)))
  child.stdin.on('error', () => undefined) // EPIPE once it is gone; its exit is what tells
  const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
    child.once('close', (code, signal) => resolve(code ?? signal))
  })
  const alive = () => child.exitCode === null && child.signalCode === null
  return {
    child,
    pid: child.pid ?? 0,
    ended,
    alive,
    stdout: () => stdout,
    stderr: () => stderr,
    ready: (withinMs = 30_000) =>
      until(
        `ready line of ${words.join(' ')}`,
        async () => {
          if (stdout.includes('\n')) return JSON.parse(stdout.slice(0, stdout.indexOf('\n'))) as Record<string, unknown>
          if (!alive()) throw new Error(`${words.join(' ')} ended before it was ready:\n${stderr}`)
          return undefined
        },
        withinMs,
      ),
    signal: (name) => void child.kill(name),
  }
}
