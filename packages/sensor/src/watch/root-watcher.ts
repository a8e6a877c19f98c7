/**
 * The filesystem source, seen from the main thread: pins the root, chooses the hot directories, runs the watching thread,
 * and publishes its rows. One source serves every pipe. Always: its failure is its own to mend (counted, with a growing
 * pause, for ever); what happened while it was away is announced as an interruption, never guessed; the policy is here,
 * the I/O in threads.
 */
import { readFileSync } from 'node:fs'
import type { Worker } from 'node:worker_threads'
import { type Clock, type Log, systemClock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { rootTrouble, type RootIdentity } from '../disk/root.js'
import { openLibc } from '../ports/libc.js'
import { startThread } from '../ports/thread.js'
import type { Scanner } from '../scan/scanner.js'
import { EventBus } from '../session/event-bus.js'
import { driftOf, hottest, watchLimit, type DirectoryTime } from './hot-set.js'
import { noStats, type FromWatchThread, type ToWatchThread, type WatchSetup, type WatchStats } from './messages.js'

export interface SourceOptions {
  readonly root: string
  readonly scanner: Scanner
  readonly clock: Clock
  readonly log: Log
  readonly native?: boolean
  /** Globs of what is neither watched nor told. */
  readonly exclude?: readonly string[]
  /** The most directories to watch; absent: 50,000, at most 80 % of the kernel's limit. */
  readonly watchMax?: number
  readonly hotSeconds?: number
  readonly pollSeconds?: number
  readonly busRows?: number
  /** The root must be a mount point: an unmounted one is refused at the start too. */
  readonly mustBeMounted?: boolean
}

export interface Source {
  readonly bus: EventBus
  /** Pins, scans and watches until the thread fails or the signal fires; whoever supervises calls it again. */
  run(signal: AbortSignal, onProgress: () => void): Promise<void>
  pinned(): RootIdentity | undefined
  /** Seconds that the file server's clock is ahead of this host's. */
  drift(): number
  stats(): WatchStats & { readonly kind: string }
  /** Watching at this moment. */
  isWatching(): boolean
  /** Resolves once the directories are watched. */
  watching(signal: AbortSignal): Promise<void>
  /** Resolves when everything that happened before now has been published. */
  sync(signal: AbortSignal): Promise<void>
  rescan(): void
  /** Stops reading the kernel's queue, for tests of what follows. */
  pause(on: boolean): void
  onOverflow(tell: () => void): void
}

// Rows that wait for the slowest pipe: about 40 MB.
const busRowsDefault = 200_000
const watchChunk = 5_000
const threadEndMs = 2_000
const nonBlockCloseOnExec = 0o4000 | 0o2000000

export function openSource(options: SourceOptions): Source {
  const { root, scanner, clock, log } = options
  const held = new SharedArrayBuffer(4)
  const hold = (on: boolean) => void Atomics.store(new Int32Array(held), 0, on ? 1 : 0)
  const bus = new EventBus(options.busRows ?? busRowsDefault, hold)
  const libc = options.native === false ? 'switched off' : openLibc()
  const wakeFd = typeof libc === 'string' ? -1 : libc.eventfd(0, nonBlockCloseOnExec)
  const one = new Uint8Array(new BigUint64Array([1n]).buffer)
  const oneAt = typeof libc === 'string' ? 0 : libc.pin(one)
  const overflowed: (() => void)[] = []
  const syncs = new Map<number, () => void>()
  const waiting: (() => void)[] = []
  let pinned: RootIdentity | undefined
  let drift = 0
  let thread: Worker | undefined
  let isWatching = false
  let ranBefore = false
  let [kind, stats, syncId] = ['none', noStats(), 0]

  function say(message: ToWatchThread): void {
    thread?.postMessage(message, [])
    if (typeof libc !== 'string') libc.write(wakeFd, oneAt, one.length)
  }

  async function pin(signal: AbortSignal): Promise<RootIdentity> {
    const now = await scanner.root(signal)
    if (pinned === undefined && now !== undefined) {
      if (options.mustBeMounted === true && !now.isMount) throw lost('the root is not mounted')
      pinned = now
    }
    const trouble = pinned === undefined ? 'the root is gone' : rootTrouble(pinned, now)
    if (pinned === undefined || trouble !== undefined) throw lost(trouble ?? 'the root is gone')
    return pinned
  }

  /** The scan before the watches: directories and their times, nothing else. */
  async function preScan(signal: AbortSignal, onProgress: () => void): Promise<DirectoryTime[]> {
    const directories: DirectoryTime[] = []
    await scanner.scan({
      mode: 'directories',
      from: ['/'],
      recursive: true,
      signal,
      onProgress,
      onDirectory: ({ path, miss, mtime }) => {
        if (miss === undefined) directories.push({ path, mtime })
      },
    })
    const nowSeconds = clock.wallMs() / 1_000
    drift = driftOf(
      directories.map(({ mtime }) => mtime),
      nowSeconds,
    )
    return directories
  }

  function take(message: FromWatchThread, fail: (error: Error) => void): void {
    if (message.type === 'ready') {
      kind = message.kind
      if (message.reason !== undefined) log.warn({ root, reason: message.reason }, 'polling instead of inotify')
    } else if (message.type === 'parts') {
      stats = message.stats
      // Files newer than our clock prove that it is behind; old ones prove nothing.
      bus.publish(message.parts, clock.wallMs() + Math.max(0, drift) * 1_000)
    } else if (message.type === 'synced') {
      syncs.get(message.id)?.()
      syncs.delete(message.id)
    } else if (message.type === 'overflow') {
      log.warn({ root }, 'the kernel dropped events: watched directories are read again, and an audit follows')
      for (const tell of overflowed) tell()
    } else if (message.type === 'failed') fail(lost(message.reason))
    else stats = message.stats
    if (message.type === 'watching') {
      isWatching = true
      for (const wake of waiting.splice(0)) wake()
    }
  }

  return {
    bus,
    pinned: () => pinned,
    drift: () => drift,
    stats: () => ({ ...stats, kind }),
    isWatching: () => isWatching,
    onOverflow: (tell) => void overflowed.push(tell),
    rescan: () => say({ type: 'rescan' }),
    pause: (on) => say({ type: 'pause', on }),
    watching: (signal) => (isWatching ? Promise.resolve() : until(signal, (done) => void waiting.push(done))),
    async sync(signal) {
      if (thread === undefined) throw lost('the source is not watching')
      const id = (syncId += 1)
      await until(signal, (done) => {
        syncs.set(id, done)
        say({ type: 'sync', id })
      })
    },
    async run(signal, onProgress) {
      const root = await pin(signal)
      const directories = await preScan(signal, onProgress)
      const limit = watchLimit(options.watchMax, kernelWatches())
      const hot = hottest(directories, limit, drift, clock.wallMs() / 1_000)
      if (hot.length < directories.length) {
        log.info({ watched: hot.length, directories: directories.length }, 'only the newest directories are watched')
      }
      const times = new Map(directories.map(({ path, mtime }) => [path, mtime]))
      const setup: WatchSetup = {
        root: options.root,
        native: options.native ?? true,
        exclude: options.exclude ?? [],
        pinned: root,
        limit,
        wakeFd,
        wallOffsetMs: clock.wallMs() - systemClock.wallMs(),
        // The earlier of the two clocks: a file taken for young by mistake is only looked at once more.
        drift: Math.min(0, drift),
        hotSeconds: options.hotSeconds ?? 60,
        pollMs: (options.pollSeconds ?? 2) * 1_000,
        partialPauseMs: 200,
        held,
      }
      const worker = startThread('./thread', import.meta.url, setup)
      thread = worker
      try {
        if (ranBefore) bus.interrupt()
        ranBefore = true
        await new Promise<void>((resolve, reject) => {
          const stop = () => resolve()
          if (signal.aborted) stop()
          signal.addEventListener('abort', stop, { once: true })
          worker.on('error', reject)
          worker.on('exit', () => reject(lost('the watching thread ended')))
          worker.on('message', (message: FromWatchThread) => {
            onProgress()
            take(message, reject)
          })
          for (let from = 0; from < hot.length; from += watchChunk) {
            const chunk = hot.slice(from, from + watchChunk)
            say({
              type: 'watch',
              tell: false,
              directories: chunk.map(({ path }) => ({ path, mtime: times.get(path) ?? 0 })),
            })
          }
        })
      } finally {
        isWatching = false
        worker
          .removeAllListeners('message')
          .removeAllListeners('exit')
          .on('error', () => undefined)
        say({ type: 'stop' })
        thread = undefined
        syncs.clear()
        await gone(worker)
      }
    },
  }
}

function until(signal: AbortSignal, start: (done: () => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = () => reject(new DOMException('cancelled', 'AbortError'))
    if (signal.aborted) return cancel()
    signal.addEventListener('abort', cancel, { once: true })
    start(() => {
      signal.removeEventListener('abort', cancel)
      resolve()
    })
  })
}

function lost(reason: string): Retryable {
  return new Retryable(reason, { code: 'source_lost', hint: 'the sensor goes on by itself when the root is back' })
}

/** It ends by itself within a quarter of a second, unless the disk holds it: then it is left to end when it can. */
async function gone(worker: Worker): Promise<void> {
  const over = new AbortController()
  worker.once('exit', () => over.abort())
  await systemClock.sleep(threadEndMs, over.signal)
  if (!over.signal.aborted) worker.unref()
}

/** What the kernel allows this user; a generous guess where it does not say. */
function kernelWatches(): number {
  try {
    return Number(readFileSync('/proc/sys/fs/inotify/max_user_watches', 'utf8'))
  } catch {
    return 65_536
  }
}
