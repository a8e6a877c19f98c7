/** Runs a short-lived program with limits on time and output. A program that cannot start is a result, not an error. */
import { execFile } from 'node:child_process'
import { environment } from '@bellwether/base'

/** The account that a program runs as. */
export interface Account {
  readonly name: string
  /** Absent: the current account. */
  readonly ids?: { readonly uid: number; readonly gid: number }
}

export interface ProgramResult {
  readonly ok: boolean
  /** The program is not installed or not reachable. */
  readonly missing: boolean
  readonly stdout: string
  /** Its error output, or why it did not start. */
  readonly stderr: string
}

export interface RunOptions {
  readonly as?: Account | undefined
  readonly cwd?: string
  readonly timeoutMs: number
}

/** No PG* variables and no language settings: PostgreSQL's messages are matched in English. */
export function plainEnv(): NodeJS.ProcessEnv {
  return { PATH: environment()['PATH'] ?? '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C', TZ: 'UTC' }
}

export function runProgram(file: string, args: readonly string[], options: RunOptions): Promise<ProgramResult> {
  return new Promise((resolve) => {
    const settings = {
      ...idsOf(options.as),
      cwd: options.cwd ?? '/',
      env: plainEnv(),
      timeout: options.timeoutMs,
      killSignal: 'SIGKILL' as const,
      maxBuffer: 1024 * 1024,
    }
    execFile(file, args, settings, (error, stdout, stderr) => {
      const code = error?.code as unknown
      resolve({
        ok: error === null,
        missing: code === 'ENOENT' || code === 'EACCES',
        stdout,
        stderr: stderr.trim() || (error?.killed ? `timed out after ${options.timeoutMs} ms` : (error?.message ?? '')),
      })
    })
  })
}

export function idsOf(account: Account | undefined): { uid?: number; gid?: number } {
  return account?.ids ?? {}
}
