/** Runs the command line as a real child process. Its stdin is a pipe, so that it does not outlive the test. */
import { spawn, type ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { defined } from '@bellwether/base'
import { until } from './until.js'

// By its path, because children run in folders without node_modules.
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
/** The arguments with which node runs a script from source. */
export const programOf = (script: string): readonly string[] => [
  '--import',
  tsx,
  '--conditions=@bellwether/source',
  script,
]
const inPackage = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))
/** An MCP server with tools that misbehave. */
export const fakeMcp = inPackage('test/support/agents/fake-mcp.mjs')
/** The arguments with which node runs the command line from source. */
export const program = programOf(inPackage('src/cli/main.ts'))
/** The build is used only if `npm test` has just made it; another build may be outdated. */
const isFresh = process.env['BELLWETHER_TEST_BUILT'] === '1'

/** The arguments with which node runs a module of this package: its build, if it is fresh, or its source. */
export const programOfModule = (name: string): readonly string[] =>
  isFresh ? [inPackage(`dist/${name}.js`)] : programOf(inPackage(`src/${name}.ts`))

/** Prefers a fresh build, which starts in a third of the time. */
export function programFor(args: readonly string[]): readonly string[] {
  // Agents in TypeScript import our sources, so the command line must use the same modules.
  return args.some((word) => word.endsWith('.ts')) ? program : programOfModule('cli/main')
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
  /** Replaces the arguments of node for the command line. */
  readonly program?: readonly string[]
  /** The user to run as; needs root. */
  readonly uid?: number
}

export function runCli(
  args: readonly string[],
  { cwd, env = {}, program: run = programFor(args), uid }: CliOptions,
): Cli {
  const child = spawn(process.execPath, [...run, ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdio: 'pipe',
    ...defined({ uid }),
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (data: Buffer) => (stdout += data.toString()))
  child.stderr.on('data', (data: Buffer) => (stderr = (stderr + data.toString()).slice(-100_000)))
  child.stdin.on('error', () => undefined) // EPIPE after its exit, which `ended` reports
  let hasStarted = true
  const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
    child.once('close', (code, signal) => resolve(code ?? signal))
    // Without this, a folder that does not exist would end the whole test run.
    child.once('error', (error) => {
      hasStarted = false
      stderr += `cannot start in ${cwd}: ${error.message}`
      resolve(null)
    })
  })
  const alive = () => hasStarted && child.exitCode === null && child.signalCode === null
  return {
    child,
    pid: child.pid ?? 0,
    ended,
    alive,
    stdout: () => stdout,
    stderr: () => stderr,
    ready: (withinMs = 30_000) =>
      until(
        `ready line of ${args.join(' ')}`,
        async () => {
          if (stdout.includes('\n')) return JSON.parse(stdout.slice(0, stdout.indexOf('\n'))) as Record<string, unknown>
          if (!alive()) throw new Error(`${args.join(' ')} ended before it was ready:\n${stderr}`)
          return undefined
        },
        withinMs,
      ),
    signal: (name) => void child.kill(name),
  }
}
