/**
 * Reads the processes of this machine from /proc: parent, group, session and turn token. A process that cannot be read (it has
 * ended, or belongs to another user) is left out; without /proc the list is empty.
 */
import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { cgroupHome, tokenInCgroup } from './cgroup.js'
import { tokenName } from './token.js'

export interface Process {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly session: number
  /** Start time in ticks since boot; with the pid it identifies a process. */
  readonly start: string
  /** It has ended, and its parent has not yet collected the exit status. */
  readonly zombie: boolean
  /** A signal has stopped it. */
  readonly stopped: boolean
  /** It waits in the kernel, for a disk or for its child between vfork and exec. A signal takes effect when the wait ends. */
  readonly blocked: boolean
  /** From its environment, or from the name of its cgroup. */
  readonly token: string | undefined
}

export function readProcess(pid: number): Process | undefined {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch {
    return undefined // the process has ended, or there is no /proc
  }
  // The name, in parentheses, may itself contain parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const zombie = (fields[0] === 'Z' || fields[0] === 'X') && !hasThreads(pid)
  return {
    pid,
    parent: Number(fields[1]),
    group: Number(fields[2]),
    session: Number(fields[3]),
    start: fields[19] ?? '',
    zombie,
    stopped: fields[0] === 'T',
    blocked: fields[0] === 'D',
    token: zombie ? undefined : (tokenOf(pid) ?? cgroupTokenOf(pid)),
  }
}

/** If the first thread of a program ends before the others, the process looks like a zombie although it runs. */
function hasThreads(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).length > 1
  } catch {
    return false // the process has ended
  }
}

const marker = `${tokenName}=`

function tokenOf(pid: number): string | undefined {
  let environment: string
  try {
    environment = readFileSync(`/proc/${pid}/environ`, 'latin1')
  } catch {
    return undefined // the process has ended, or belongs to another user
  }
  const at = environment.startsWith(marker) ? 0 : environment.indexOf(`\0${marker}`) + 1
  if (at === 0 && !environment.startsWith(marker)) return undefined
  const from = at + marker.length
  const to = environment.indexOf('\0', from)
  return environment.slice(from, to === -1 ? undefined : to)
}

/** The token of a process that has none in its environment, but is in the cgroup of a turn. */
function cgroupTokenOf(pid: number): string | undefined {
  if (cgroupHome() === undefined) return undefined
  try {
    return tokenInCgroup(readFileSync(`/proc/${pid}/cgroup`, 'latin1'))
  } catch {
    return undefined // the process has ended
  }
}

export function readProcesses(): Process[] {
  let names: string[]
  try {
    names = readdirSync('/proc')
  } catch {
    return [] // no /proc
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

/** Identifies this process in the tokens of the processes that it starts. */
export function readSelf(): Self {
  const own = readProcess(process.pid)
  return { namespace: ownNamespace(), workerPid: process.pid, workerStart: own?.start ?? '0' }
}

function ownNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid').replace(/\D/g, '') || '0'
  } catch {
    return '0' // no /proc
  }
}
