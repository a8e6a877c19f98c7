/**
 * A pipe to the guardian for another thread of the worker, which renews turns while the event loop is blocked. Both threads share the
 * number of the open file. The lock keeps the main thread from closing the file while the other thread writes to it, because the
 * number may then name another file.
 */
import { writeSync } from 'node:fs'
import type { ChildProcess } from 'node:child_process'
import type { GuardCommand } from './guard.js'

export type RenewalChannel = Int32Array

export type Renewal = Extract<GuardCommand, { readonly do: 'renew' }>

const file = 0
const lock = 1
const none = -1
// A write to a pipe with room takes microseconds. The other thread may have been terminated while it held the lock.
const lockMaxMs = 100

export function newRenewalChannel(): RenewalChannel {
  const channel = new Int32Array(new SharedArrayBuffer(8))
  channel[file] = none
  return channel
}

/** Called by the main thread when a guardian has started (`stdio[3]` is its pipe) and before its pipes are closed. */
export function connectChannel(channel: RenewalChannel, child: ChildProcess | undefined): void {
  const pipe = child?.stdio[3] as { readonly _handle?: { readonly fd?: number } } | null | undefined
  Atomics.wait(channel, lock, 1, lockMaxMs)
  Atomics.store(channel, file, pipe?._handle?.fd ?? none)
}

/** Called by the other thread. Throws if the guardian does not read; the next beat tries again. */
export function sendRenewals(channel: RenewalChannel, renewals: readonly Renewal[]): void {
  Atomics.store(channel, lock, 1)
  try {
    const fd = Atomics.load(channel, file)
    // The first newline ends what an incomplete write left.
    if (fd !== none) writeSync(fd, `\n${renewals.map((renewal) => `${JSON.stringify(renewal)}\n`).join('')}`)
  } finally {
    Atomics.store(channel, lock, 0)
    Atomics.notify(channel, lock)
  }
}
