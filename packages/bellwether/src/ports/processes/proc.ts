/**
 * What /proc says of the processes of this machine: their parents, groups, sessions and turn tokens. Always: a process that
 * cannot be read (it ended meanwhile, or belongs to another user) is left out; a system without /proc has an empty list.
 */
import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { tokenName } from './token.js'

export interface Process {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly session: number
  /** Ticks since boot; with the pid it names a process for good. */
  readonly start: string
  /** It has ended and only waits for its parent to ask how. */
  readonly zombie: boolean
  readonly token: string | undefined
}

export function readProcess(pid: number): Process | undefined {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch {
    return undefined // ended meanwhile, or no /proc on this system
  }
  // The name, in parentheses, may hold anything, also parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const zombie = (fields[0] === 'Z' || fields[0] === 'X') && !hasThreads(pid)
  return {
    pid,
    parent: Number(fields[1]),
    group: Number(fields[2]),
    session: Number(fields[3]),
    start: fields[19] ?? '',
    zombie,
    token: zombie ? undefined : tokenOf(pid),
  }
}

/** The first thread of a program may end before the others: then it looks dead, and is not. */
function hasThreads(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).length > 1
  } catch {
    return false // it has been buried meanwhile
  }
}

const marker = `${tokenName}=`

function tokenOf(pid: number): string | undefined {
  let environment: string
  try {
    environment = readFileSync(`/proc/${pid}/environ`, 'latin1')
  } catch {
    return undefined // another user's, or ended meanwhile: not ours to end
  }
  const at = environment.startsWith(marker) ? 0 : environment.indexOf(`\0${marker}`) + 1
  if (at === 0 && !environment.startsWith(marker)) return undefined
  const from = at + marker.length
  const to = environment.indexOf('\0', from)
  return environment.slice(from, to === -1 ? undefined : to)
}

export function readProcesses(): Process[] {
  let names: string[]
  try {
    names = readdirSync('/proc')
  } catch {
    return []
  }
  const found: Process[] = []
  for (const name of names) {
    if (!/^\d+$/.test(name)) continue
    const process = readProcess(Number(name))
    if (process !== undefined) found.push(process)
  }
  return found
}

export interface Self {
  readonly namespace: string
  readonly workerPid: number
  readonly workerStart: string
}

/** Who this process is, for the tokens of what it starts. */
export function readSelf(): Self {
  const own = readProcess(process.pid)
  return { namespace: ownNamespace(), workerPid: process.pid, workerStart: own?.start ?? '0' }
}

function ownNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid').replace(/\D/g, '') || '0'
  } catch {
    return '0' // no /proc: there is nothing to tell apart
  }
}
