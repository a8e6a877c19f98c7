/**
 * A disk whose calls all end within the timeout of local state (H1.4). A call that takes longer is abandoned and fails with a
 * Retryable; its effect is in doubt, as after a crash. A log file with an abandoned call must be opened again, because the call may
 * still write to its buffer.
 */
import type { Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Disk, LogFile } from './disk.js'

export interface BoundedDiskOptions {
  readonly clock: Clock
  readonly timeoutMs: number
}

// A large file gets the timeout once more per 32 MiB: about 10 MiB/s by default, which every disk reaches.
const bytesPerTimeout = 2 ** 25

export function boundedDisk(disk: Disk, { clock, timeoutMs }: BoundedDiskOptions): Disk {
  /** `bytes`: how much the call has read or written so far, or may read. */
  async function bound<T>(what: string, work: Promise<T>, bytes: () => number = () => 0): Promise<T> {
    const settled = new AbortController()
    const startMs = clock.monotonicMs()
    const late = async (): Promise<never> => {
      for (;;) {
        const limitMs = timeoutMs * (1 + Math.floor(bytes() / bytesPerTimeout))
        const leftMs = startMs + limitMs - clock.monotonicMs()
        if (leftMs > 0) await clock.sleep(leftMs, settled.signal)
        // After the process was frozen, timers fire before completed calls are seen: let these complete first.
        else await new Promise((resolve) => setImmediate(resolve))
        if (leftMs > 0 && !settled.signal.aborted) continue
        throw new Retryable(`The disk did not answer within ${limitMs} ms (${what}).`, {
          code: 'timeout',
          afterMs: 1_000,
          hint: 'Check the disk, then retry. The timeout is localStateSec in config/retry-policy.json.',
        })
      }
    }
    try {
      return await Promise.race([work, late()])
    } finally {
      settled.abort()
    }
  }

  const boundedFile = (file: LogFile, path: string): LogFile => ({
    size: () => bound(`size of ${path}`, file.size()),
    read: (buffer, position) => bound(`reading ${path}`, file.read(buffer, position)),
    append: (bytes) => bound(`appending to ${path}`, file.append(bytes), () => bytes.byteLength),
    flush: () => bound(`flushing ${path}`, file.flush()),
    identity: () => bound(`identity of ${path}`, file.identity()),
    close: () => bound(`closing ${path}`, file.close()),
  })

  return {
    async openLog(path, access) {
      const file = await bound(`opening ${path}`, disk.openLog(path, access))
      return file === 'missing' ? file : boundedFile(file, path)
    },
    read: (path, maxBytes) => bound(`reading ${path}`, disk.read(path, maxBytes), () => maxBytes),
    stat: (path) => bound(`status of ${path}`, disk.stat(path)),
    list: (folder) => bound(`listing ${folder}`, disk.list(folder)),
    createExclusive: (path, draft, bytes) => bound(`creating ${path}`, disk.createExclusive(path, draft, bytes)),
    writeDraft(draft, chunks) {
      let bytes = 0
      function* counted() {
        for (const chunk of chunks) {
          bytes += chunk.length
          yield chunk
        }
      }
      return bound(`writing ${draft}`, disk.writeDraft(draft, counted()), () => bytes)
    },
    replace: (path, draft) => bound(`replacing ${path}`, disk.replace(path, draft)),
    move: (from, to) => bound(`renaming ${from}`, disk.move(from, to)),
    link: (from, to) => bound(`linking ${from}`, disk.link(from, to)),
    remove: (path) => bound(`removing ${path}`, disk.remove(path)),
    makeFolder: (path) => bound(`creating ${path}`, disk.makeFolder(path)),
    realPath: (path) => bound(`resolving ${path}`, disk.realPath(path)),
  }
}
