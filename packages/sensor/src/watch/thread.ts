/**
 * The watch thread: reads the kernel's queue, handles the changes and sends rows, in a loop. It blocks in poll and never spins;
 * a hung mount blocks only this thread. It sends deletes only after checking that the root is the pinned one. While no pipe
 * keeps up it handles no changes; the kernel reports if its queue overflows in that time.
 */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { systemClock } from '@bellwether/base'
import { rootBytes, type Disk } from '../disk/disk.js'
import { openDisk } from '../disk/open.js'
import { rootIdentity, rootProblem } from '../disk/root.js'
import { openLibc } from '../ports/libc.js'
import { InotifyWatcher } from './inotify-watcher.js'
import { openInotify } from './inotify.js'
import { PollingWatcher } from './polling-watcher.js'
import type { FromWatchThread, ToWatchThread, Watcher, WatchSetup } from './messages.js'

// How often the thread checks the root and reports to the main thread that it is alive.
const tickMs = 1_000
const waitMs = 250
const pauseMs = 20

const setup = workerData as WatchSetup
const port = parentPort!
const backpressure = new Int32Array(setup.backpressure)
const post = (message: FromWatchThread) => port.postMessage(message, [])
const serverNow = () => (systemClock.wallMs() + setup.wallOffsetMs) / 1_000 + setup.drift
const monotonicMs = () => systemClock.monotonicMs()

const never = new Int32Array(new SharedArrayBuffer(4))
/** Sleeps even if the kernel has something to read. */
const blockFor = (ms: number) => void Atomics.wait(never, 0, 0, ms)

function open(disk: Disk): Watcher {
  const libc = setup.native ? openLibc() : 'disabled'
  const inotify = typeof libc === 'string' ? undefined : openInotify(rootBytes(setup.root), libc, setup.wakeFd)
  const { limit, hotSeconds } = setup
  if (inotify !== undefined) {
    post({ type: 'ready', kind: 'inotify' })
    const { partialPauseMs } = setup
    return new InotifyWatcher({ disk, inotify, limit, serverNow, monotonicMs, hotSeconds, partialPauseMs })
  }
  post({ type: 'ready', kind: 'polling', reason: typeof libc === 'string' ? libc : 'the kernel rejected inotify' })
  const sleep = (ms: number) => blockFor(Math.min(ms, waitMs))
  return new PollingWatcher({ disk, limit, serverNow, monotonicMs, hotSeconds, pollMs: setup.pollMs, sleep })
}

function run(): void {
  const disk = openDisk(setup.root, setup.native, setup.exclude)
  const watcher = open(disk)
  const currentProblem = () => rootProblem(setup.pinned, rootIdentity(disk))
  let [paused, lastTickMs, watching] = [false, monotonicMs(), 0]

  /** Sends the rows so far; false if the root is not the pinned one. */
  function send(): boolean {
    if (watcher.hasDeletes) {
      const reason = currentProblem()
      if (reason !== undefined) return fail(reason)
    }
    const parts = watcher.take()
    if (parts.length > 0) post({ type: 'parts', parts, stats: watcher.stats })
    return true
  }
  function fail(reason: string): false {
    post({ type: 'failed', reason })
    return false
  }
  function drain(): void {
    if (!paused && watcher.drain()) post({ type: 'overflow' })
  }
  /** Handles and sends everything that happened before now. */
  function sync(id: number): boolean {
    let more = true
    while (more) {
      drain()
      more = watcher.step(true)
      if (!send()) return false
    }
    post({ type: 'synced', id })
    return true
  }
  /** Handles messages of the main thread; false if the thread should end. */
  function handleMessages(): boolean {
    for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
      const message = next.message as ToWatchThread
      if (message.type === 'stop') return false
      if (message.type === 'pause') paused = message.on
      else if (message.type === 'rescan') watcher.rescan()
      else if (message.type === 'follow') watcher.follow(message.directories, message.since)
      else if (message.type === 'sync') {
        if (!sync(message.id)) return false
      } else {
        watcher.watch(message.directories, message.report)
        watching += 1
      }
    }
    return true
  }

  while (handleMessages()) {
    drain()
    const blocked = paused || Atomics.load(backpressure, 0) === 1
    const more = blocked ? false : watcher.step(false)
    if (!send()) break
    if (!more && !blocked && watching > 0) {
      watching = 0
      post({ type: 'watching', stats: watcher.stats })
    }
    if (monotonicMs() - lastTickMs >= tickMs) {
      lastTickMs = monotonicMs()
      const reason = currentProblem()
      if (reason !== undefined) {
        fail(reason)
        break
      }
      post({ type: 'alive', stats: watcher.stats })
    }
    if (blocked) blockFor(pauseMs)
    else if (!more) watcher.wait(waitMs)
  }
  watcher.close()
}

run()
port.close()
