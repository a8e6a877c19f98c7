/** Opens the fastest disk that works on this machine: native if koffi loads, otherwise through Node. */
import { openLibc } from '../ports/libc.js'
import { rootBytes, type Disk } from './disk.js'
import { parseExclude, withoutExcluded } from './exclude.js'
import { nativeDisk } from './native-disk.js'
import { nodeDisk } from './node-disk.js'

export function openDisk(root: string, native = true, exclude: readonly string[] = []): Disk {
  const libc = native ? openLibc() : 'disabled'
  const disk = typeof libc === 'string' ? nodeDisk(rootBytes(root)) : nativeDisk(rootBytes(root), libc)
  const matches = parseExclude(exclude)
  return matches === undefined ? disk : withoutExcluded(disk, matches)
}
