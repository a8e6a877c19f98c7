/**
 * Puts the processes of a turn into a cgroup of their own, if this process may create one (cgroup v2, Linux). No process can leave its
 * cgroup by clearing its environment, starting a session or losing its parent, so the turn's processes are found exactly. The name of
 * the cgroup contains the turn's token. contain.ts decides what to do without a writable cgroup.
 */
import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { environment } from '@bellwether/base'

export const cgroupPrefix = 'bellwether.'
// The limit of a file name. Only tokens with very long agent names exceed it.
const nameMaxChars = 255

// The shell sets these variables; the program must not see them.
const enter = 'echo 0 2> /dev/null > "$0"; unset PWD OLDPWD; exec "$@"'

let home: string | null | undefined

/** The cgroup of this process, in which it creates those of its turns. Undefined if there is none, or it is not writable. */
export function cgroupHome(): string | undefined {
  if (home === undefined) home = findHome() ?? null
  return home ?? undefined
}

function findHome(): string | undefined {
  if (environment()['BELLWETHER_CGROUPS'] === 'off') return undefined
  try {
    const mount = /^(?:\S+ ){4}(\S+) .* - cgroup2 /m.exec(readFileSync('/proc/self/mountinfo', 'utf8'))?.[1]
    const own = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1]
    if (mount === undefined || own === undefined) return undefined
    const folder = join(mount, own)
    const probe = join(folder, `${cgroupPrefix}probe-${process.pid}`)
    mkdirSync(probe)
    rmdirSync(probe)
    return folder
  } catch {
    return undefined // no /proc, a read-only mount, or no permission
  }
}

/** Wraps `command` in a shell that enters the turn's cgroup and then becomes the program. Undefined if there is no cgroup. */
export function inCgroup(token: string, command: readonly string[]): readonly [string, ...string[]] | undefined {
  const folder = cgroupOf(token)
  if (folder === undefined) return undefined
  try {
    mkdirSync(folder, { recursive: true })
  } catch {
    return undefined // the kernel refuses another cgroup
  }
  return ['/bin/sh', '-c', enter, join(folder, 'cgroup.procs'), ...command]
}

/** Limits the memory of a turn's processes together. Returns whether the kernel does: the memory controller may belong to another cgroup. */
export function limitCgroupMemory(token: string, bytes: number): boolean {
  const folder = cgroupOf(token)
  if (folder === undefined) return false
  try {
    writeFileSync(join(folder, 'memory.max'), String(bytes), { flag: 'r+' })
    return true
  } catch {
    return false // no cgroup for this turn, or no memory controller in it
  }
}

/** Whether the kernel killed a process of the turn because of the limit. */
export function wasOutOfMemory(token: string): boolean {
  const folder = cgroupOf(token)
  if (folder === undefined) return false
  try {
    return /^oom_kill [1-9]/m.test(readFileSync(join(folder, 'memory.events'), 'utf8'))
  } catch {
    return false // no cgroup for this turn, or no memory controller in it
  }
}

/** Removes the cgroup of a turn if no process is left in it. */
export function leaveCgroup(token: string): void {
  const folder = cgroupOf(token)
  if (folder !== undefined) removeEmpty(folder)
}

/** Removes the empty cgroups that killed workers left. */
export function removeEmptyCgroups(): void {
  const folder = cgroupHome()
  if (folder === undefined) return
  for (const name of readdirSync(folder)) if (name.startsWith(cgroupPrefix)) removeEmpty(join(folder, name))
}

/** Returns whether it was removed. If processes or nested cgroups are left in it, the sweep of the next worker tries again. */
function removeEmpty(folder: string): boolean {
  try {
    rmdirSync(folder)
    return true
  } catch {
    return false // in use, or removed by another worker
  }
}

function cgroupOf(token: string): string | undefined {
  const folder = cgroupHome()
  const name = `${cgroupPrefix}${token}`
  return folder === undefined || name.length > nameMaxChars ? undefined : join(folder, name)
}

/** The token in the text of /proc/PID/cgroup. */
export function tokenInCgroup(text: string): string | undefined {
  return /^0::\S*\/bellwether\.([^\s/]+)/m.exec(text)?.[1]
}
