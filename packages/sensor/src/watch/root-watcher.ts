/**
 * Watches one root from the main thread: pins it, selects the hot directories, runs the watch thread and publishes its rows on
 * the bus for all pipes. A failure ends `run`; the task around it starts it again. After a gap it interrupts the bus, so that
 * the pipes report everything again. Threads do all I/O.
 */
import { readFileSync } from 'node:fs'
import type { Worker } from 'node:worker_threads'
import { type Clock, type Log, onAbort, systemClock } from '@bellwether/base'
import { startThread } from '@bellwether/base/thread'
import { Retryable } from '@bellwether/protocol'
import { rootProblem, type RootIdentity } from '../disk/root.js'
import { openLibc } from '../ports/libc.js'
import type { Scanner } from '../scan/scanner.js'
import { EventBus } from '../session/event-bus.js'
import { driftOf, hottest, watchLimit, type DirectoryTime } from './hot-set.js'
import { noStats, type FromWatchThread, type ToWatchThread, type WatchSetup, type WatchStats } from './messages.js'

export interface RootWatcherOptions {
  readonly root: string
  readonly scanner: Scanner
  readonly clock: Clock
  readonly log: Log
  readonly native?: boolean
  /** Globs of paths that are neither watched nor reported. */
  readonly exclude?: readonly string[]
  /** Maximum watched directories; default 50,000, at most 80 % of the kernel's limit. */
  readonly watchMax?: number
  readonly pollSeconds?: number
  readonly busRows?: number
  /** Requires the root to be a mount point, also at the start. */
  readonly mustBeMounted?: boolean
}

export interface RootWatcher {
  readonly bus: EventBus
  /** Pins, scans and watches until the thread fails (rejects) or the signal aborts. */
  run(signal: AbortSignal, onProgress: () => void): Promise<void>
  pinned(): RootIdentity | undefined
  /** Seconds that the file server's clock is ahead of this host's. */
  drift(): number
  stats(): WatchStats & { readonly kind: string }
  isWatching(): boolean
  /** Resolves once the directories are watched. */
  watching(signal: AbortSignal): Promise<void>
  /** Resolves when everything that happened before the call is published. */
  sync(signal: AbortSignal): Promise<void>
  rescan(): void
  /** Watches directories that were found in another way than by inotify, for example because another host created them. */
  follow(directories: readonly DirectoryTime[]): void
  /** Stops or continues reading the kernel's queue, for overflow tests. */
  pause(on: boolean): void
  onOverflow(listener: () => void): void
}

// Rows waiting for the slowest pipe: about 40 MB, at most 80 MB.
const busRowsDefault = 200_000
const watchChunk = 5_000
// A file without changes for this long counts as complete.
const hotSeconds = 60
const threadEndMs = 2_000
const nonBlockCloseOnExec = 0o4000 | 0o2000000

export function openRootWatcher(options: RootWatcherOptions): RootWatcher {
  const { root, scanner, clock, log } = options
  const backpressure = new SharedArrayBuffer(4)
  const setPaused = (on: boolean) => void Atomics.store(new Int32Array(backpressure), 0, on ? 1 : 0)
  const bus = new EventBus(options.busRows ?? busRowsDefault, setPaused)
  const libc = options.native === false ? 'disabled' : openLibc()
  const wakeFd = typeof libc === 'string' ? -1 : libc.eventfd(0, nonBlockCloseOnExec)
  const increment = new Uint8Array(new BigUint64Array([1n]).buffer)
  const incrementAt = typeof libc === 'string' ? 0 : libc.pin(increment)
  const overflowListeners: (() => void)[] = []
  const syncs = new Map<number, () => void>()
  const waiting: (() => void)[] = []
  let pinned: RootIdentity | undefined
  let drift = 0
  /** When the watches were chosen, in seconds of the file server's clock. Directories that changed earlier were considered then. */
  let watchedSince = 0
  let thread: Worker | undefined
  let isWatching = false
  let ranBefore = false
  let [kind, stats, syncId] = ['none', noStats(), 0]

  function post(message: ToWatchThread): void {
    thread?.postMessage(message, [])
    if (typeof libc !== 'string') libc.write(wakeFd, incrementAt, increment.length)
  }

  async function pin(signal: AbortSignal): Promise<RootIdentity> {
    const now = await scanner.root(signal)
    if (pinned === undefined && now !== undefined) {
      if (options.mustBeMounted === true && !now.isMount) throw watcherFailed('the root is not mounted')
      pinned = now
    }
    const problem = pinned === undefined ? 'the root is gone' : rootProblem(pinned, now)
    if (pinned === undefined || problem !== undefined) throw watcherFailed(problem ?? 'the root is gone')
    return pinned
  }

  /** The scan before the watches: reads only directories and their mtimes. */
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
    watchedSince = nowSeconds + Math.min(0, drift)
    return directories
  }

  function take(message: FromWatchThread, fail: (error: Error) => void): void {
    if (message.type === 'ready') {
      kind = message.kind
      if (message.reason !== undefined)
        log.warn({ root, reason: message.reason }, 'inotify unavailable; polling instead')
    } else if (message.type === 'parts') {
      stats = message.stats
      // Files newer than this host's clock prove that it is behind; older files prove nothing.
      bus.publish(message.parts, clock.wallMs() + Math.max(0, drift) * 1_000)
    } else if (message.type === 'synced') {
      syncs.get(message.id)?.()
      syncs.delete(message.id)
    } else if (message.type === 'overflow') {
      log.warn({ root }, 'inotify queue overflowed; listing watched directories again before an audit')
      for (const listener of overflowListeners) listener()
    } else if (message.type === 'failed') fail(watcherFailed(message.reason))
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
    onOverflow: (listener) => void overflowListeners.push(listener),
    rescan: () => post({ type: 'rescan' }),
    follow(directories) {
      for (let from = 0; from < directories.length; from += watchChunk)
        post({ type: 'follow', directories: directories.slice(from, from + watchChunk), since: watchedSince })
    },
    pause: (on) => post({ type: 'pause', on }),
    watching: (signal) => (isWatching ? Promise.resolve() : until(signal, (done) => void waiting.push(done))),
    async sync(signal) {
      if (thread === undefined) throw watcherFailed('the watch thread is not running')
      const id = (syncId += 1)
      await until(signal, (done) => {
        syncs.set(id, done)
        post({ type: 'sync', id })
      })
    },
    async run(signal, onProgress) {
      const root = await pin(signal)
      const directories = await preScan(signal, onProgress)
      const limit = watchLimit(options.watchMax, kernelWatches())
      const hot = hottest(directories, limit, drift, clock.wallMs() / 1_000)
      if (hot.length < directories.length) {
        log.info(
          { watched: hot.length, directories: directories.length },
          'watch limit reached; watching the newest directories only',
        )
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
        // The earlier of the two clocks: a file that wrongly counts as recent is only checked once more.
        drift: Math.min(0, drift),
        hotSeconds,
        pollMs: (options.pollSeconds ?? 2) * 1_000,
        partialPauseMs: 200,
        backpressure,
      }
      const worker = startThread('./thread', import.meta.url, setup)
      thread = worker
      let removeListener = () => {}
      try {
        if (ranBefore) bus.interrupt()
        ranBefore = true
        await new Promise<void>((resolve, reject) => {
          removeListener = onAbort(signal, resolve)
          worker.on('error', reject)
          worker.on('exit', () => reject(watcherFailed('the watch thread exited')))
          worker.on('message', (message: FromWatchThread) => {
            onProgress()
            take(message, reject)
          })
          for (let from = 0; from < hot.length; from += watchChunk) {
            const chunk = hot.slice(from, from + watchChunk)
            post({
              type: 'watch',
              report: false,
              directories: chunk.map(({ path }) => ({ path, mtime: times.get(path) ?? 0 })),
            })
          }
        })
      } finally {
        removeListener()
        isWatching = false
        // The thread is stopping: an error now has no effect.
        worker
          .removeAllListeners('message')
          .removeAllListeners('exit')
          .on('error', () => undefined)
        post({ type: 'stop' })
        thread = undefined
        syncs.clear()
        await exited(worker)
      }
    },
  }
}

function until(signal: AbortSignal, start: (done: () => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const release = onAbort(signal, () => reject(new DOMException('cancelled', 'AbortError')))
    if (signal.aborted) return
    start(() => {
      release()
      resolve()
    })
  })
}

function watcherFailed(reason: string): Retryable {
  return new Retryable(`Cannot watch: ${reason}`, {
    code: 'source_lost',
    hint: 'The sensor continues by itself when the root is available again.',
  })
}

/** Waits for the thread to exit, usually within 250 ms. A thread that is stuck in a system call exits later on its own. */
async function exited(worker: Worker): Promise<void> {
  const over = new AbortController()
  worker.once('exit', () => over.abort())
  await systemClock.sleep(threadEndMs, over.signal)
  if (!over.signal.aborted) worker.unref()
}

/** The kernel's limit of watches per user; a generous guess if it is unknown. */
function kernelWatches(): number {
  try {
    return Number(readFileSync('/proc/sys/fs/inotify/max_user_watches', 'utf8'))
  } catch {
    return 65_536
  }
}
