/** Reads processes from /proc, as an operator would with `ps`. On a system without /proc, no process has children. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The workers among the children of `pid`. */
export function workersOf(pid: number): number[] {
  if (!existsSync('/proc/self')) return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && fieldOf(`/proc/${name}/status`, 'PPid') === pid)
    .map(Number)
    .filter((child) => textOf(`/proc/${child}/cmdline`)?.split('\0').includes('worker') === true)
}

/** Resident memory in MiB. */
export function memoryOf(pid: number): number {
  return (fieldOf(`/proc/${pid}/status`, 'VmRSS') ?? 0) / 1_024
}

/** The postmaster of the embedded database of a data folder of `up`, if it runs. */
export function postmasterOf(dataDir: string): number | undefined {
  const pid = Number(textOf(join(dataDir, 'database', 'cluster', 'postmaster.pid'))?.split('\n')[0])
  const isPostgres =
    Number.isSafeInteger(pid) && pid > 1 && textOf(`/proc/${pid}/cmdline`)?.includes('postgres') === true
  return isPostgres ? pid : undefined
}

/** Returns false if the process no longer exists. */
export function sendSignal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch (error) {
    if (hasCode(error, 'ESRCH')) return false
    throw error
  }
}

function fieldOf(path: string, name: string): number | undefined {
  const found = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(textOf(path) ?? '')?.[1]
  return found === undefined ? undefined : Number(found)
}

/** Undefined if the file does not exist or its process is gone. */
function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ESRCH', 'EACCES')) return undefined
    throw error
  }
}

const hasCode = (error: unknown, ...codes: readonly string[]) =>
  error instanceof Error && 'code' in error && codes.includes(String(error.code))
