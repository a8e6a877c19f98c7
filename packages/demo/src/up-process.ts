/**
 * `bellwether up --json` as a child process. It holds a pipe from this process and stops when this process dies; its own
 * process group keeps Ctrl-C away from it, so that the demo stops it in order.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { systemClock } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'

/** The line that `up --json` prints when everything answers. */
export interface UpInfo {
  readonly url: string
  readonly adminKey: string
  readonly loginUrl: string
  readonly databaseUrl: string
  readonly pid: number
}

/** `up` prints the key only when it creates it. */
type PrintedInfo = Omit<UpInfo, 'adminKey'> & { readonly adminKey?: string; readonly adminKeyFile: string }

const withKey = (info: PrintedInfo): UpInfo => ({
  ...info,
  adminKey: info.adminKey ?? readFileSync(info.adminKeyFile, 'utf8').trim(),
})

export interface UpProcess {
  readonly info: UpInfo
  readonly pid: number
  readonly exited: Promise<void>
  isAlive(): boolean
  kill(): void
  /** Sends SIGTERM, or closes the pipe if `atOnce`; sends SIGKILL when `graceMs` is over. */
  stop(atOnce: boolean, graceMs: number): Promise<void>
}

export interface UpOptions {
  /** Node's arguments that run the command line: flags and script. */
  readonly program: readonly string[]
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** Gets its stderr appended. */
  readonly logFile: string
}

const readyMs = 120_000

export async function startUp({ program, args, env, cwd, logFile }: UpOptions): Promise<UpProcess> {
  const log = openSync(logFile, 'a')
  const child = spawn(process.execPath, [...program, 'up', ...args, '--json', '--parent-pipe'], {
    cwd,
    env,
    stdio: ['pipe', 'pipe', log],
    detached: true,
  })
  closeSync(log)
  child.stdin?.on('error', () => undefined) // EPIPE after its exit; the exit event reports it
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  const isAlive = () => child.exitCode === null && child.signalCode === null
  const over = new AbortController()
  const line = await Promise.race([
    new Promise<string>((resolve) => createInterface({ input: child.stdout! }).once('line', resolve)),
    exited.then(() => undefined),
    systemClock.sleep(readyMs, over.signal).then(() => undefined),
  ])
  over.abort()
  if (line === undefined) {
    child.kill('SIGKILL')
    throw new Terminal('bellwether up exited, or did not answer, before it was ready', {
      code: 'up_failed',
      hint: `read its log in ${logFile}`,
    })
  }
  return {
    info: withKey(JSON.parse(line) as PrintedInfo),
    pid: child.pid ?? 0,
    exited,
    isAlive,
    kill: () => void child.kill('SIGKILL'),
    async stop(atOnce, graceMs) {
      if (!isAlive()) return
      if (atOnce) child.stdin?.end()
      else child.kill('SIGTERM')
      const gone = new AbortController()
      void exited.then(() => gone.abort())
      await systemClock.sleep(graceMs, gone.signal)
      if (isAlive()) child.kill('SIGKILL')
      await exited
    },
  }
}
