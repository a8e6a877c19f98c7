/**
 * Mounts one directory several times, as hosts share a network filesystem: inotify on one mount does not see changes through
 * another, and each mount caches attributes for one second. Each mount is a passthrough FUSE filesystem (bindfs). Where FUSE is
 * not available, all hosts use the directory itself, and `kind` says so.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'

export interface Hosts {
  readonly kind: 'fuse' | 'one directory'
  /** Why there is no FUSE. */
  readonly reason: string | undefined
  /** The path of the shared directory on each host. */
  readonly roots: readonly string[]
  /** Ms after which no mount shows outdated attributes. */
  readonly cacheMs: number
  unmount(): void
}

const commandMs = 20_000
// The default of FUSE; longer than the time between most steps.
const cacheSeconds = 1

/** Runs a command and returns why it failed. */
function problemOf(command: string, ...words: string[]): string | undefined {
  const { status, stderr, error } = spawnSync(command, words, { timeout: commandMs, encoding: 'utf8' })
  if (status === 0) return undefined
  return `${command}: ${error?.message ?? stderr.trim()}`
}

export function mountHosts(store: string, folder: string, names: readonly string[]): Hosts {
  const mounted: string[] = []
  const unmount = () => {
    // Lazily, because a sensor that is being killed may still have files open.
    for (const at of mounted.splice(0)) problemOf('umount', '-l', at)
  }
  for (const name of names) {
    const at = join(folder, `host-${name}`)
    mkdirSync(at)
    const reason = problemOf('bindfs', '-o', `attr_timeout=${cacheSeconds},entry_timeout=${cacheSeconds}`, store, at)
    if (reason !== undefined) {
      unmount()
      return { kind: 'one directory', reason, roots: names.map(() => store), cacheMs: 0, unmount }
    }
    mounted.push(at)
  }
  return { kind: 'fuse', reason: undefined, roots: [...mounted], cacheMs: cacheSeconds * 1_100, unmount }
}
