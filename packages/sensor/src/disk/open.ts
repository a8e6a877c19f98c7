/** The fastest disk that this machine has: native where koffi loads, else Node's own. */
import { openLibc } from '../ports/libc.js'
import { rootBytes, type Disk } from './disk.js'
import { parseExclude, withoutExcluded } from './exclude.js'
import { nativeDisk } from './native-disk.js'
import { nodeDisk } from './node-disk.js'

export function openDisk(root: string, native = true, exclude: readonly string[] = []): Disk {
  const libc = native ? openLibc() : 'not wanted'
  const disk = typeof libc === 'string' ? nodeDisk(rootBytes(root)) : nativeDisk(rootBytes(root), libc)
  const matches = parseExclude(exclude)
  return matches === undefined ? disk : withoutExcluded(disk, matches)
}
