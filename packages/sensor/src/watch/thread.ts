/**
 * The watching thread: empties the kernel's queue, looks at what changed, and sends rows, in that order for ever. It blocks
 * in poll, never spins, and a hung mount blocks nobody else. Always: before deletes leave, the root is the pinned one;
 * while nobody takes its rows it stops looking, and the kernel's queue tells later if it could not hold everything.
 */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { systemClock } from '@bellwether/base'
import { rootBytes, type Disk } from '../disk/disk.js'
import { openDisk } from '../disk/open.js'
import { rootIdentity, rootTrouble } from '../disk/root.js'
import { openLibc } from '../ports/libc.js'
import { InotifyWatcher } from './inotify-watcher.js'
import { openInotify } from './inotify.js'
import { PollingWatcher } from './polling-watcher.js'
import type { FromWatchThread, ToWatchThread, Watcher, WatchSetup } from './messages.js'

// How often the root is looked at and the main thread hears that we live.
const tickMs = 1_000
const waitMs = 250
const napMs = 20

const setup = workerData as WatchSetup
const port = parentPort!
const held = new Int32Array(setup.held)
const say = (message: FromWatchThread) => port.postMessage(message, [])
const serverNow = () => (systemClock.wallMs() + setup.wallOffsetMs) / 1_000 + setup.drift
const monotonicMs = () => systemClock.monotonicMs()

const never = new Int32Array(new SharedArrayBuffer(4))
/** Sleeps although the kernel may have something to read. */
const nap = (ms: number) => void Atomics.wait(never, 0, 0, ms)

function open(disk: Disk): Watcher {
  const libc = setup.native ? openLibc() : 'switched off'
  const inotify = typeof libc === 'string' ? undefined : openInotify(rootBytes(setup.root), libc, setup.wakeFd)
  const { limit, hotSeconds } = setup
  if (inotify !== undefined) {
    say({ type: 'ready', kind: 'inotify' })
    const { partialPauseMs } = setup
    return new InotifyWatcher({ disk, inotify, limit, serverNow, monotonicMs, hotSeconds, partialPauseMs })
  }
  say({ type: 'ready', kind: 'polling', reason: typeof libc === 'string' ? libc : 'the kernel gives no inotify' })
  const sleep = (ms: number) => nap(Math.min(ms, waitMs))
  return new PollingWatcher({ disk, limit, serverNow, monotonicMs, hotSeconds, pollMs: setup.pollMs, sleep })
}

function run(): void {
  const disk = openDisk(setup.root, setup.native, setup.exclude)
  const watcher = open(disk)
  const trouble = () => rootTrouble(setup.pinned, rootIdentity(disk))
  let [paused, lastTickMs, watching] = [false, monotonicMs(), 0]

  /** Sends what there is; false when the root is not ours any more. */
  function send(): boolean {
    if (watcher.hasDeletes) {
      const reason = trouble()
      if (reason !== undefined) return fail(reason)
    }
    const parts = watcher.take()
    if (parts.length > 0) say({ type: 'parts', parts, stats: watcher.stats })
    return true
  }
  function fail(reason: string): false {
    say({ type: 'failed', reason })
    return false
  }
  function drain(): void {
    if (!paused && watcher.drain()) say({ type: 'overflow' })
  }
  /** Everything that happened before now, looked at and sent. */
  function sync(id: number): boolean {
    let more = true
    while (more) {
      drain()
      more = watcher.step(true)
      if (!send()) return false
    }
    say({ type: 'synced', id })
    return true
  }
  /** False: the thread is to end. */
  function listen(): boolean {
    for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
      const message = next.message as ToWatchThread
      if (message.type === 'stop') return false
      if (message.type === 'pause') paused = message.on
      else if (message.type === 'rescan') watcher.rescan()
      else if (message.type === 'sync') {
        if (!sync(message.id)) return false
      } else {
        watcher.watch(message.directories, message.tell)
        watching += 1
      }
    }
    return true
  }

  while (listen()) {
    drain()
    const blocked = paused || Atomics.load(held, 0) === 1
    const more = blocked ? false : watcher.step(false)
    if (!send()) break
    if (!more && !blocked && watching > 0) {
      watching = 0
      say({ type: 'watching', stats: watcher.stats })
    }
    if (monotonicMs() - lastTickMs >= tickMs) {
      lastTickMs = monotonicMs()
      const reason = trouble()
      if (reason !== undefined) {
        fail(reason)
        break
      }
      say({ type: 'alive', stats: watcher.stats })
    }
    if (blocked) nap(napMs)
    else if (!more) watcher.wait(waitMs)
  }
  watcher.close()
}

run()
port.close()
