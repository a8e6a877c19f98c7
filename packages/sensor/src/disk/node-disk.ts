/** Reads the disk through Node alone, for machines where koffi does not load. Names are bytes, times exact to the nanosecond. */
import { lstatSync, readdirSync, type BigIntStats } from 'node:fs'
import { decodeFileName } from '@bellwether/protocol'
import { bytesOf, newDiskEntry, missOf, type Disk, type DiskEntry, type Miss } from './disk.js'

const billion = 1_000_000_000n

function seconds(ns: bigint): number {
  return Number(ns / billion) + Number(ns % billion) / 1e9
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

export function nodeDisk(root: Uint8Array): Disk {
  const found = newDiskEntry()

  function stat(bytes: Buffer): BigIntStats | Miss {
    try {
      return lstatSync(bytes, { bigint: true })
    } catch (error) {
      return missOf(codeOf(error))
    }
  }
  function fill(from: BigIntStats): void {
    found.isDirectory = from.isDirectory()
    found.isRegular = from.isFile()
    found.isSymlink = from.isSymbolicLink()
    found.links = Number(from.nlink)
    found.size = Number(from.size)
    found.mtime = seconds(from.mtimeNs)
    found.createdTime = seconds(from.birthtimeNs)
  }

  return {
    kind: 'node',
    stat(path): DiskEntry | Miss {
      const at = stat(bytesOf(root, path))
      if (typeof at === 'string') return at
      fill(at)
      found.name = path.slice(path.lastIndexOf('/') + 1)
      return found
    },
    identity(path) {
      const at = stat(bytesOf(root, path))
      return typeof at === 'string' ? undefined : { device: `${at.dev}`, inode: `${at.ino}` }
    },
    list(path, each) {
      const bytes = bytesOf(root, path)
      const before = stat(bytes)
      if (typeof before === 'string') return before
      if (!before.isDirectory()) return 'gone'
      let names: Buffer[]
      try {
        names = readdirSync(bytes, { encoding: 'buffer' })
      } catch (error) {
        return missOf(codeOf(error))
      }
      const prefix = Buffer.concat([bytes, Buffer.from('/')])
      let [vanished, denied] = [0, 0]
      for (const name of names) {
        const at = stat(Buffer.concat([prefix, name]))
        if (at === 'gone') vanished += 1
        else if (typeof at === 'string') denied += 1
        else {
          fill(at)
          found.name = decodeFileName(name)
          each(found)
        }
      }
      const after = stat(bytes)
      if (typeof after === 'string') return after
      return {
        mtime: seconds(before.mtimeNs),
        createdTime: seconds(before.birthtimeNs),
        mtimeAfter: seconds(after.mtimeNs),
        vanished,
        denied,
      }
    },
  }
}
