/**
 * Reads the disk through getdents64 and statx: names arrive in large blocks, and each entry costs one call relative to the
 * open directory, into memory that is read in place. One third faster than Node on one thread, with nanosecond times.
 */
import { decodeFileName } from '@bellwether/protocol'
import type { Libc } from '../ports/libc.js'
import { bytesOf, newDiskEntry, missOf, type Disk, type DiskEntry, type Miss } from './disk.js'

const atCwd = -100
const noFollow = 0x100
const emptyPath = 0x1000
/** Type, mode, links, size, inode, mtime and creation time. */
const wanted = 0x1 | 0x2 | 0x4 | 0x40 | 0x100 | 0x200 | 0x800
const directoryFlags = 0o200000 | 0o400000 | 0o2000000
const typeMask = 0o170000
// About 8,000 names per block; larger blocks were not faster.
const blockBytes = 262_144
// Linux rejects longer paths.
const pathBytes = 8_192

export function nativeDisk(root: Uint8Array, libc: Libc): Disk {
  const block = Buffer.alloc(blockBytes)
  // Node's direct conversion from bytes to text, without parsing an encoding name.
  const names = block as Buffer & { latin1Slice(start: number, end: number): string }
  const halves = new Uint16Array(block.buffer, block.byteOffset, blockBytes >> 1)
  const stat = new Uint32Array(64)
  const signed = new Int32Array(stat.buffer)
  const path = Buffer.alloc(pathBytes)
  const blockAt = libc.pin(block)
  const statAt = libc.pin(new Uint8Array(stat.buffer))
  const pathAt = libc.pin(path)
  const found = newDiskEntry()

  function writePath(relative: string): boolean {
    const bytes = bytesOf(root, relative)
    if (bytes.length >= pathBytes) return false
    bytes.copy(path)
    path[bytes.length] = 0
    return true
  }
  const time = (word: number): number => {
    const seconds = signed[word + 1]! * 4_294_967_296 + stat[word]!
    return seconds + stat[word + 2]! / 1e9
  }
  function fill(): void {
    const type = stat[7]! & typeMask
    found.isDirectory = type === 0o040000
    found.isRegular = type === 0o100000
    found.isSymlink = type === 0o120000
    found.links = stat[4]!
    found.size = stat[11]! * 4_294_967_296 + stat[10]!
    found.mtime = time(28)
    found.createdTime = (stat[0]! & 0x800) === 0 ? 0 : time(20)
  }
  const statPath = (): boolean => libc.statx(atCwd, pathAt, noFollow, wanted, statAt) === 0
  function statSelf(fd: number): boolean {
    path[0] = 0
    return libc.statx(fd, pathAt, emptyPath, wanted, statAt) === 0
  }

  return {
    kind: 'native',
    stat(relative): DiskEntry | Miss {
      if (!writePath(relative)) return 'gone'
      if (!statPath()) return missOf(libc.errno())
      fill()
      found.name = relative.slice(relative.lastIndexOf('/') + 1)
      return found
    },
    identity(relative) {
      if (!writePath(relative) || !statPath()) return undefined
      return { device: `${stat[34]}:${stat[35]}`, inode: `${(BigInt(stat[9]!) << 32n) | BigInt(stat[8]!)}` }
    },
    list(relative, each) {
      if (!writePath(relative)) return 'gone'
      const fd = libc.openat(atCwd, pathAt, directoryFlags)
      if (fd < 0) return missOf(libc.errno())
      try {
        if (!statSelf(fd)) return missOf(libc.errno())
        fill()
        const { mtime, createdTime } = found
        let [vanished, denied] = [0, 0]
        for (;;) {
          const bytesRead = libc.getdents(fd, blockAt, blockBytes)
          if (bytesRead < 0) return missOf(libc.errno())
          if (bytesRead === 0) break
          for (let at = 0; at < bytesRead; at += halves[(at + 16) >> 1]!) {
            const start = at + 19
            let end = start
            let all = 0
            for (let byte = block[end]!; byte !== 0; byte = block[(end += 1)]!) all |= byte
            const length = end - start
            if (block[start] === 46 && (length === 1 || (length === 2 && block[start + 1] === 46))) continue
            if (libc.statx(fd, blockAt + start, noFollow, wanted, statAt) !== 0) {
              if (missOf(libc.errno()) === 'gone') vanished += 1
              else denied += 1
              continue
            }
            fill()
            found.name = all < 0x80 ? names.latin1Slice(start, end) : decodeFileName(block, start, end)
            each(found)
          }
        }
        if (!statSelf(fd)) return missOf(libc.errno())
        return { mtime, createdTime, mtimeAfter: time(28), vanished, denied }
      } finally {
        libc.close(fd)
      }
    },
  }
}
