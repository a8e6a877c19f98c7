/**
 * Stops every process of a turn with SIGSTOP and continues them later. A stopped process has no effects and starts no children, so
 * another worker may run the turn; if none does, no work is lost. The module keeps no state: a guardian that replaces another one
 * continues the processes that the other one stopped.
 */
import type { Clock } from '@bellwether/base'
import { signalTo } from './kill-tree.js'
import { processTree, type TreeSelector } from './process-tree.js'
import { readProcesses, type Process } from './proc.js'

export interface FreezeOptions extends Omit<TreeSelector, 'self'> {
  readonly clock: Clock
}

// A scan can miss a process in the middle of fork or exec; the next one finds it.
const emptyScansNeeded = 3
const scanMs = 10
// A program that keeps starting processes cannot use up this many scans.
const scansMax = 100

const setTree = async ({ clock, ...selector }: FreezeOptions, stopped: boolean): Promise<void> => {
  const signal = stopped ? 'SIGSTOP' : 'SIGCONT'
  // A process that is blocked in the kernel has no effects; the signal takes effect before it has any again.
  const signalled = new Set<number>()
  const isDone = (one: Process) => (one.blocked ? signalled.has(one.pid) : one.stopped === stopped)
  let empty = 0
  for (let scan = 0; empty < emptyScansNeeded && scan < scansMax; scan += 1) {
    const processes = readProcesses()
    // Without /proc only the group of the root is known.
    if (processes.length === 0) {
      if (selector.root !== undefined) signalTo(-selector.root, signal)
      return
    }
    const others = processTree(processes, { ...selector, self: process.pid }).filter((one) => !isDone(one))
    for (const { pid } of others) {
      signalled.add(pid)
      signalTo(pid, signal)
    }
    empty = others.length === 0 ? empty + 1 : 0
    await clock.sleep(scanMs)
  }
}

export const freezeTree = (options: FreezeOptions) => setTree(options, true)
export const thawTree = (options: FreezeOptions) => setTree(options, false)
