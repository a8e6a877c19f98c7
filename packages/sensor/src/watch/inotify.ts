/**
 * The inotify calls of the kernel: one descriptor, watches on directories only, events read in blocks. Reads never block;
 * `wait` polls the descriptor together with one that wakes the thread. The watcher interprets the events.
 */
import { decodeFileName } from '@bellwether/protocol'
import { bytesOf, missOf, type Miss } from '../disk/disk.js'
import type { Libc } from '../ports/libc.js'

export const mask = {
  modified: 0x2,
  attributes: 0x4,
  closedWrite: 0x8,
  movedFrom: 0x40,
  movedTo: 0x80,
  created: 0x100,
  deleted: 0x200,
  deletedSelf: 0x400,
  movedSelf: 0x800,
  unmounted: 0x2000,
  overflow: 0x4000,
  ignored: 0x8000,
  isDirectory: 0x40000000,
} as const

/** The last three bits: only directories, no symbolic links, no events of files that were unlinked while open. */
const wanted = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x01000000 | 0x02000000 | 0x04000000
const nonBlockCloseOnExec = 0o4000 | 0o2000000
const noSpace = 28
// About 5,000 events with typical names.
const blockBytes = 262_144
const pathBytes = 8_192
const pollIn = 1

export interface RawEvent {
  readonly watch: number
  readonly mask: number
  readonly name: string
}

export interface Inotify {
  /** The watch descriptor; `full` if the kernel's limit for this user is reached. */
  add(path: string): number | Miss | 'full'
  remove(watch: number): void
  /** Passes on the events of one read; false if there was nothing to read. */
  drain(each: (event: RawEvent) => void): boolean
  /** Waits until there is something to read, the wake descriptor fires, or the time is up. */
  wait(ms: number): void
  close(): void
}

/** Undefined if the kernel rejects it (no inotify, or too many instances). */
export function openInotify(root: Uint8Array, libc: Libc, wakeFd: number): Inotify | undefined {
  const fd = libc.inotifyInit(nonBlockCloseOnExec)
  if (fd < 0) return undefined
  const block = Buffer.alloc(blockBytes)
  const path = Buffer.alloc(pathBytes)
  const polled = new Int16Array(8)
  const counter = new Uint8Array(8)
  const at = {
    block: libc.pin(block),
    path: libc.pin(path),
    polled: libc.pin(new Uint8Array(polled.buffer)),
    counter: libc.pin(counter),
  }
  new Int32Array(polled.buffer)[0] = fd
  new Int32Array(polled.buffer)[2] = wakeFd
  polled[2] = pollIn
  polled[6] = pollIn
  return {
    add(relative) {
      const bytes = bytesOf(root, relative)
      if (bytes.length >= pathBytes) return 'gone'
      bytes.copy(path)
      path[bytes.length] = 0
      const watch = libc.inotifyAdd(fd, at.path, wanted)
      if (watch >= 0) return watch
      const errno = libc.errno()
      return errno === noSpace ? 'full' : missOf(errno)
    },
    remove: (watch) => void libc.inotifyRemove(fd, watch),
    drain(each) {
      const bytesRead = libc.read(fd, at.block, blockBytes)
      if (bytesRead <= 0) return false
      for (let from = 0; from < bytesRead;) {
        const length = block.readUInt32LE(from + 12)
        const start = from + 16
        let end = start
        while (end < start + length && block[end] !== 0) end += 1
        const name = end === start ? '' : decodeFileName(block, start, end)
        each({ watch: block.readInt32LE(from), mask: block.readUInt32LE(from + 4), name })
        from = start + length
      }
      return true
    },
    wait(ms) {
      libc.poll(at.polled, 2, ms)
      if ((polled[7]! & pollIn) !== 0) libc.read(wakeFd, at.counter, 8)
    },
    close: () => void libc.close(fd),
  }
}
