/**
 * Walks directories with threads and delivers rows in the order in which they were read. A directory is scanned only after the
 * rows that reported it have arrived; unconsumed rows are bounded; a scan fails unless the root is the pinned one at its start
 * and end. Threads of a cancelled scan end as soon as their system call returns. The scanner keeps no state between scans.
 */
import type { Worker } from 'node:worker_threads'
import { onAbort, systemClock } from '@bellwether/base'
import { startThread } from '@bellwether/base/thread'
import { Retryable } from '@bellwether/protocol'
import { childOf } from '../disk/disk.js'
import { rootProblem, type RootIdentity } from '../disk/root.js'
import type {
  DirectoryResult,
  DirectoryTask,
  FromScanThread,
  PathStat,
  KnownDirectory,
  ScanMode,
  ScanSettings,
  ScanSetup,
  ToScanThread,
} from './messages.js'

export interface ScannerOptions {
  readonly root: string
  readonly native?: boolean
  /** Default 2; a network filesystem with high latency benefits from more. */
  readonly threads?: number
  readonly batchRows?: number
  /** Globs of paths that are not reported. */
  readonly exclude?: readonly string[]
  /** How long an idle thread is kept. */
  readonly idleMs?: number
  readonly pinned?: () => RootIdentity | undefined
}

export interface ScanRequest {
  readonly mode: ScanMode
  /** The directories to start from. */
  readonly from: readonly string[]
  readonly recursive: boolean
  readonly hotSince?: number
  readonly signal?: AbortSignal
  readonly knownDirectory?: (path: string) => KnownDirectory | undefined
  /** At most `batchRows` rows, and about 2 MB, as JSON text; the next batch follows when the promise settles. */
  readonly onRows?: (text: Buffer, count: number) => Promise<void>
  readonly onDirectory?: (result: DirectoryResult) => void
  readonly onProgress?: () => void
}

export interface ScanReport {
  rows: number
  directories: number
  unchanged: number
  denied: number
  vanished: number
  failed: number
}

export interface Scanner {
  scan(request: ScanRequest): Promise<ScanReport>
  statPaths(paths: readonly string[], signal?: AbortSignal): Promise<readonly PathStat[]>
  root(signal?: AbortSignal): Promise<RootIdentity | undefined>
  close(): void
}

// Directories per message: enough to hide the cost of a message, few enough to share the work.
const tasksPerMessage = 32
// Bytes that may wait for the sender before the threads pause themselves: about 20 batches of ordinary rows.
const outstandingMax = 4_000_000
// Characters per message of a thread: with the longest paths about 40 rows.
const chunkLength = 1_000_000
// A quarter of what a server accepts.
const batchBytes = 2_000_000
// A thread takes about 10 MB and starts within 50 ms, so an idle sensor keeps none.
const idleMsDefault = 5_000

export function openScanner(options: ScannerOptions): Scanner {
  const { root, native = true, threads = 2, batchRows = 1_000, idleMs = idleMsDefault } = options
  const setup: ScanSetup = { root, native, exclude: options.exclude ?? [] }
  /** Idle threads. They do not keep the process alive and stop after `idleMs`. */
  const idle: Worker[] = []
  const retiring = new Map<Worker, AbortController>()
  let isClosed = false

  function acquire(): Worker {
    const worker = idle.pop() ?? startThread('./thread', import.meta.url, setup)
    cancelRetirement(worker)
    worker.ref()
    return worker
  }
  function cancelRetirement(worker: Worker): void {
    retiring.get(worker)?.abort()
    retiring.delete(worker)
  }
  async function retireWhenIdle(worker: Worker): Promise<void> {
    const acquired = new AbortController()
    retiring.set(worker, acquired)
    await systemClock.sleep(idleMs, acquired.signal)
    if (!acquired.signal.aborted) stopThread(worker)
  }
  /** An interrupted thread may be stuck in a system call, so it is stopped instead of reused. */
  function release(worker: Worker, isReusable: boolean): void {
    worker.removeAllListeners('message').removeAllListeners('error').removeAllListeners('exit')
    if (isReusable && !isClosed && idle.length < threads + 1) {
      worker.on('error', () => stopThread(worker)).unref()
      idle.push(worker)
      void retireWhenIdle(worker)
    } else stopThread(worker)
  }
  function stopThread(worker: Worker): void {
    const at = idle.indexOf(worker)
    if (at >= 0) idle.splice(at, 1)
    cancelRetirement(worker)
    worker.on('error', () => undefined).unref() // it is no longer used, so its failure has no effect
    // The thread ends when its system call returns. Terminating it inside a native call may crash the process.
    worker.postMessage({ type: 'stop' } satisfies ToScanThread, [])
  }

  /** Sends one message to a thread and waits for its reply. */
  async function ask<T>(message: ToScanThread, signal: AbortSignal | undefined, read: (reply: FromScanThread) => T) {
    const worker = acquire()
    let isReusable = false
    let removeListener = () => {}
    try {
      return await new Promise<T>((resolve, reject) => {
        removeListener = onAbort(signal, () => reject(cancelled()))
        worker.removeAllListeners('error').on('error', reject)
        worker.on('exit', (code) => reject(ended(code)))
        worker.on('message', (reply: FromScanThread) => {
          isReusable = true
          resolve(read(reply))
        })
        worker.postMessage(message, [])
      })
    } finally {
      removeListener()
      release(worker, isReusable)
    }
  }
  const askRoot = (signal?: AbortSignal) =>
    ask({ type: 'root' }, signal, (reply) => (reply.type === 'root' ? reply.root : undefined))

  function requireRoot(now: RootIdentity | undefined): void {
    const pinned = options.pinned?.()
    const problem = pinned === undefined ? undefined : rootProblem(pinned, now)
    if (problem !== undefined) throw new Retryable(`Cannot scan: ${problem}`, { code: 'root_lost' })
  }

  async function checkRoot(signal: AbortSignal | undefined): Promise<void> {
    if (options.pinned?.() !== undefined) requireRoot(await askRoot(signal))
  }

  return {
    root: askRoot,
    close() {
      isClosed = true
      for (const worker of [...idle]) stopThread(worker)
    },
    async statPaths(paths, signal) {
      const reply = await ask({ type: 'stat', paths }, signal, (message) =>
        message.type === 'stats' ? message : undefined,
      )
      reply?.roots.forEach(requireRoot)
      return reply?.stats ?? []
    },
    async scan(request) {
      await checkRoot(request.signal)
      const report = await walk(request)
      await checkRoot(request.signal)
      return report
    },
  }

  function walk(request: ScanRequest): Promise<ScanReport> {
    const { mode, from, recursive, signal, knownDirectory, onRows, onDirectory, onProgress } = request
    const report: ScanReport = { rows: 0, directories: 0, unchanged: 0, denied: 0, vanished: 0, failed: 0 }
    const outstanding = new SharedArrayBuffer(8)
    const settings: ScanSettings = {
      mode,
      chunkRows: batchRows,
      chunkLength,
      outstanding,
      outstandingMax,
      hotSince: request.hotSince ?? 0,
    }
    const waiting = new Int32Array(outstanding)
    const task = (path: string, isListed: boolean): DirectoryTask => {
      const known = knownDirectory?.(path)
      return known === undefined ? { path, isListed } : { path, isListed, known }
    }
    // Last in, first out: this keeps the frontier small.
    const frontier: DirectoryTask[] = from.map((path) => task(path, false)).toReversed()
    const pool = Array.from({ length: Math.max(1, threads) }, acquire)
    const free = [...pool]
    const chunks: { text: Uint8Array; count: number }[] = []
    let delivering: Promise<void> | undefined

    return new Promise<ScanReport>((resolve, reject) => {
      let isOver = false
      let removeListener = () => {}
      const finish = (end: () => void, isReusable = false) => {
        if (isOver) return
        isOver = true
        removeListener()
        if (!isReusable) Atomics.store(waiting, 1, 1)
        Atomics.notify(waiting, 0)
        for (const worker of pool) release(worker, isReusable)
        end()
      }
      const fail = (error: unknown) => finish(() => reject(error))
      const cancel = () => fail(cancelled())

      /** Joins small chunks and delivers them batch by batch. */
      async function deliver(): Promise<void> {
        while (chunks.length > 0 && !isOver) {
          const texts: Uint8Array[] = []
          let [count, bytes] = [0, 0]
          for (let next = chunks[0]; next !== undefined && count + next.count <= batchRows; next = chunks[0]) {
            if (count > 0 && bytes + next.text.length > batchBytes) break
            if (count > 0) texts.push(comma)
            texts.push(next.text)
            count += next.count
            bytes += next.text.length
            chunks.shift()
          }
          await onRows?.(Buffer.concat(texts), count)
          report.rows += count
          Atomics.sub(waiting, 0, bytes)
          Atomics.notify(waiting, 0)
          onProgress?.()
        }
      }
      function step(): void {
        while (free.length > 0 && frontier.length > 0) {
          const share = Math.max(1, Math.min(tasksPerMessage, Math.ceil(frontier.length / free.length)))
          const tasks = frontier.splice(-share).toReversed()
          free.pop()!.postMessage({ type: 'directories', settings, tasks } satisfies ToScanThread, [])
        }
        if (chunks.length > 0 && delivering === undefined) {
          delivering = deliver().then(() => {
            delivering = undefined
            step()
          }, fail)
        }
        const idle = free.length === pool.length && frontier.length === 0
        if (idle && chunks.length === 0 && delivering === undefined) finish(() => resolve(report), true)
      }
      function take(result: DirectoryResult): void {
        report.directories += 1
        report.vanished += result.vanished
        report.denied += result.denied
        if (result.unchanged) report.unchanged += 1
        if (result.miss === 'gone') report.vanished += 1
        else if (result.miss === 'denied') report.denied += 1
        else if (result.miss !== undefined) report.failed += 1
        onDirectory?.(result)
        if (!recursive) return
        // The names below an unchanged directory come from the last audit; this scan has not reported them yet.
        for (const name of result.subdirectories) frontier.push(task(childOf(result.path, name), !result.unchanged))
      }

      removeListener = onAbort(signal, cancel)
      if (isOver) return
      for (const thread of pool) {
        thread.removeAllListeners('error').on('error', fail)
        thread.on('exit', (code) => fail(ended(code)))
        thread.on('message', (message: FromScanThread) => {
          if (isOver) return
          onProgress?.()
          if (message.type === 'rows') chunks.push(message)
          else if (message.type === 'done') {
            for (const result of message.results) take(result)
            free.push(thread)
          }
          step()
        })
      }
      step()
    })
  }
}

const comma = Buffer.from(',')

function ended(code: number): Retryable {
  return new Retryable(`A scan thread exited with code ${code}`, { code: 'thread_ended' })
}

function cancelled(): Error {
  return new DOMException('cancelled', 'AbortError')
}
