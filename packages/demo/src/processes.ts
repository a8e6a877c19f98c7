/** Reads processes from /proc, as an operator would with `ps`. On a system without /proc there are none. */
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { hasCode } from '@bellwether/base'

export interface ProcessRow {
  readonly pid: number
  readonly parent: number
  /** The start time in ticks, because a pid is reused. */
  readonly start: string
  readonly mebibytes: number
  /** Processor time so far. */
  readonly cpuSeconds: number
  readonly command: readonly string[]
}

const pageMebibytes = 4_096 / 1_048_576
const ticksPerSecond = 100

export function readProcesses(): ProcessRow[] {
  if (!existsSync('/proc/self')) return []
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? (readProcess(Number(name)) ?? []) : []))
}

/** Undefined if the process has ended, also if it is a zombie. */
export function readProcess(pid: number): ProcessRow | undefined {
  const stat = textOf(`/proc/${pid}/stat`)
  if (stat === undefined) return undefined
  // The name in brackets may contain spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = 'Z', parent = '0'] = fields
  if (state === 'Z' || state === 'X') return undefined
  const number = (at: number) => Number(fields[at] ?? 0)
  return {
    pid,
    parent: Number(parent),
    start: fields[19] ?? '',
    mebibytes: number(21) * pageMebibytes,
    cpuSeconds: (number(11) + number(12)) / ticksPerSecond,
    command: (textOf(`/proc/${pid}/cmdline`) ?? '').split('\0'),
  }
}

/** The processes with these pids, and all their descendants. */
export function familyOf(rows: readonly ProcessRow[], pids: readonly number[]): ProcessRow[] {
  const found = new Set(pids)
  for (let before = -1; before !== found.size;) {
    before = found.size
    for (const { pid, parent } of rows) if (found.has(parent)) found.add(pid)
  }
  return rows.filter(({ pid }) => found.has(pid))
}

/** The processes that work in a folder or below it. */
export function processesIn(rows: readonly ProcessRow[], folder: string): ProcessRow[] {
  return rows.filter(({ pid }) => {
    const path = linkOf(`/proc/${pid}/cwd`)
    return path === folder || path?.startsWith(`${folder}/`) === true
  })
}

/** The workers among the children of `pid`. */
export function workersOf(pid: number): number[] {
  return readProcesses()
    .filter(({ parent, command }) => parent === pid && command.includes('worker'))
    .map((row) => row.pid)
}

/** Resident memory in MiB. */
export function memoryOf(pid: number): number {
  return readProcess(pid)?.mebibytes ?? 0
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

/** Undefined if the file does not exist or its process is gone. */
function textOf(path: string): string | undefined {
  return unlessGone(() => readFileSync(path, 'utf8'))
}

const linkOf = (path: string) => unlessGone(() => readlinkSync(path))

function unlessGone(read: () => string): string | undefined {
  try {
    return read()
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ESRCH', 'EACCES')) return undefined
    throw error
  }
}
