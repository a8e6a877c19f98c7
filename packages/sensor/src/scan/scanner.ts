/**
 * The scanner: walks directories with threads and hands rows on in the order they were read. It does the I/O and holds no
 * state: a thread forgets one scan before the next, memory is asked for and given back directory by directory. Always: a directory is
 * handed out only after the rows that announced it have arrived; rows not yet taken are bounded; the root is the pinned
 * one at the start and at the end, or the scan fails; a cancelled scan's threads end as soon as the disk lets go of them.
 */
import type { Worker } from 'node:worker_threads'
import { systemClock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { childOf } from '../disk/disk.js'
import { rootTrouble, type RootIdentity } from '../disk/root.js'
import { startThread } from '../ports/thread.js'
import type {
  DirectoryResult,
  DirectoryTask,
  FromScanThread,
  Looked,
  Memory,
  ScanMode,
  ScanOrder,
  ScanSetup,
  ToScanThread,
} from './messages.js'

export interface ScannerOptions {
  readonly root: string
  readonly native?: boolean
  /** Two use two cores; a network filesystem with high latency gains from more. */
  readonly threads?: number
  readonly batchRows?: number
  /** Globs of what is not told. */
  readonly exclude?: readonly string[]
  /** How long a thread that nobody needs is kept. */
  readonly restMs?: number
  readonly pinned?: () => RootIdentity | undefined
}

export interface ScanRequest {
  readonly mode: ScanMode
  /** Where to begin; every one of them is scanned. */
  readonly from: readonly string[]
  readonly recursive: boolean
  readonly hotSince?: number
  readonly signal?: AbortSignal
  readonly memory?: (path: string) => Memory | undefined
  /** Rows as JSON text, at most `batchRows` of them; the next come when the promise is settled. */
  readonly onRows?: (text: Buffer, count: number) => Promise<void>
  readonly onDirectory?: (result: DirectoryResult) => void
  readonly onProgress?: () => void
}

export interface ScanReport {
  rows: number
  directories: number
  silent: number
  denied: number
  vanished: number
  failed: number
}

export interface Scanner {
  scan(request: ScanRequest): Promise<ScanReport>
  look(paths: readonly string[], signal?: AbortSignal): Promise<readonly Looked[]>
  root(signal?: AbortSignal): Promise<RootIdentity | undefined>
  close(): void
}

// What one thread is handed at a time: enough to hide the message's cost, little enough to share the work.
const tasksPerMessage = 32
// Batches that may wait for the sender before the threads pause.
const batchesAhead = 16
// A thread holds some ten megabytes and starts within 50 ms: an idle sensor needs none.
const restUsualMs = 5_000

export function openScanner(options: ScannerOptions): Scanner {
  const { root, native = true, threads = 2, batchRows = 1_000, restMs = restUsualMs } = options
  const setup: ScanSetup = { root, native, exclude: options.exclude ?? [] }
  /** Threads that have nothing to do; they keep no process alive, and are let go when that lasts. */
  const rested: Worker[] = []
  const leaving = new Map<Worker, AbortController>()
  let isClosed = false

  function hire(): Worker {
    const worker = rested.pop() ?? startThread('./thread', import.meta.url, setup)
    stay(worker)
    worker.ref()
    return worker
  }
  function stay(worker: Worker): void {
    leaving.get(worker)?.abort()
    leaving.delete(worker)
  }
  async function leave(worker: Worker): Promise<void> {
    const hired = new AbortController()
    leaving.set(worker, hired)
    await systemClock.sleep(restMs, hired.signal)
    if (!hired.signal.aborted) dismiss(worker)
  }
  /** One that was interrupted may be stuck in a call to the disk: it is ended, not used again. */
  function release(worker: Worker, isSound: boolean): void {
    worker.removeAllListeners('message').removeAllListeners('error').removeAllListeners('exit')
    if (isSound && !isClosed && rested.length < threads + 1) {
      worker.on('error', () => dismiss(worker)).unref()
      rested.push(worker)
      void leave(worker)
    } else dismiss(worker)
  }
  function dismiss(worker: Worker): void {
    const at = rested.indexOf(worker)
    if (at >= 0) rested.splice(at, 1)
    stay(worker)
    worker.on('error', () => undefined).unref()
    // It ends by itself, as soon as the disk lets go of it; ending it by force inside a native call may end us all.
    worker.postMessage({ type: 'stop' } satisfies ToScanThread, [])
  }

  /** One question to a thread of its own. */
  async function ask<T>(message: ToScanThread, signal: AbortSignal | undefined, read: (answer: FromScanThread) => T) {
    const worker = hire()
    let isSound = false
    const cancelling = new AbortController()
    try {
      return await new Promise<T>((resolve, reject) => {
        const cancel = () => reject(cancelled())
        if (signal?.aborted === true) cancel()
        signal?.addEventListener('abort', cancel, { once: true, signal: cancelling.signal })
        worker.removeAllListeners('error').on('error', reject)
        worker.on('exit', (code) => reject(ended(code)))
        worker.on('message', (answer: FromScanThread) => {
          isSound = true
          resolve(read(answer))
        })
        worker.postMessage(message, [])
      })
    } finally {
      cancelling.abort()
      release(worker, isSound)
    }
  }
  const askRoot = (signal?: AbortSignal) =>
    ask({ type: 'root' }, signal, (answer) => (answer.type === 'root' ? answer.root : undefined))

  function mustBeRoot(now: RootIdentity | undefined): void {
    const pinned = options.pinned?.()
    const trouble = pinned === undefined ? undefined : rootTrouble(pinned, now)
    if (trouble !== undefined) throw new Retryable(trouble, { code: 'root_lost' })
  }

  async function checkRoot(signal: AbortSignal | undefined): Promise<void> {
    if (options.pinned?.() !== undefined) mustBeRoot(await askRoot(signal))
  }

  return {
    root: askRoot,
    close() {
      isClosed = true
      for (const worker of [...rested]) dismiss(worker)
    },
    async look(paths, signal) {
      const answer = await ask({ type: 'look', paths }, signal, (told) => (told.type === 'looked' ? told : undefined))
      answer?.roots.forEach(mustBeRoot)
      return answer?.looks ?? []
    },
    async scan(request) {
      await checkRoot(request.signal)
      const report = await walk(request)
      await checkRoot(request.signal)
      return report
    },
  }

  function walk(request: ScanRequest): Promise<ScanReport> {
    const { mode, from, recursive, signal, memory, onRows, onDirectory, onProgress } = request
    const report: ScanReport = { rows: 0, directories: 0, silent: 0, denied: 0, vanished: 0, failed: 0 }
    const outstanding = new SharedArrayBuffer(8)
    const outstandingMax = batchRows * batchesAhead
    const order: ScanOrder = {
      mode,
      chunkRows: batchRows,
      outstanding,
      outstandingMax,
      hotSince: request.hotSince ?? 0,
    }
    const waiting = new Int32Array(outstanding)
    const task = (path: string, listed: boolean): DirectoryTask => {
      const known = memory?.(path)
      return known === undefined ? { path, listed } : { path, listed, memory: known }
    }
    // Last in, first out: the frontier stays as small as the tree is deep.
    const frontier: DirectoryTask[] = from.map((path) => task(path, false)).toReversed()
    const pool = Array.from({ length: Math.max(1, threads) }, hire)
    const free = [...pool]
    const chunks: { text: Uint8Array; count: number }[] = []
    let delivering: Promise<void> | undefined

    return new Promise<ScanReport>((resolve, reject) => {
      let over = false
      const finish = (end: () => void, isSound = false) => {
        if (over) return
        over = true
        signal?.removeEventListener('abort', cancel)
        if (!isSound) Atomics.store(waiting, 1, 1)
        Atomics.notify(waiting, 0)
        for (const worker of pool) release(worker, isSound)
        end()
      }
      const fail = (error: unknown) => finish(() => reject(error))
      const cancel = () => fail(cancelled())

      /** Takes chunks, joins small ones, and hands them on one batch after the other. */
      async function deliver(): Promise<void> {
        while (chunks.length > 0 && !over) {
          const texts: Uint8Array[] = []
          let count = 0
          for (let next = chunks[0]; next !== undefined && count + next.count <= batchRows; next = chunks[0]) {
            if (count > 0) texts.push(comma)
            texts.push(next.text)
            count += next.count
            chunks.shift()
          }
          await onRows?.(Buffer.concat(texts), count)
          report.rows += count
          Atomics.sub(waiting, 0, count)
          Atomics.notify(waiting, 0)
          onProgress?.()
        }
      }
      function step(): void {
        while (free.length > 0 && frontier.length > 0) {
          const share = Math.max(1, Math.min(tasksPerMessage, Math.ceil(frontier.length / free.length)))
          const tasks = frontier.splice(-share).toReversed()
          free.pop()!.postMessage({ type: 'directories', order, tasks } satisfies ToScanThread, [])
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
        if (result.silent) report.silent += 1
        if (result.miss === 'gone') report.vanished += 1
        else if (result.miss === 'denied') report.denied += 1
        else if (result.miss !== undefined) report.failed += 1
        onDirectory?.(result)
        if (!recursive) return
        // The names of a silent directory come from memory: nobody has told of these directories in this scan.
        for (const name of result.subdirectories) frontier.push(task(childOf(result.path, name), !result.silent))
      }

      if (signal?.aborted === true) return cancel()
      signal?.addEventListener('abort', cancel, { once: true })
      for (const thread of pool) {
        thread.removeAllListeners('error').on('error', fail)
        thread.on('exit', (code) => fail(ended(code)))
        thread.on('message', (message: FromScanThread) => {
          if (over) return
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
  return new Retryable(`a scanning thread ended (${code})`, { code: 'thread_ended' })
}

function cancelled(): Error {
  return new DOMException('cancelled', 'AbortError')
}
