/**
 * Stops every process of a turn with SIGSTOP and continues them later. A stopped process has no effects and starts no children, so
 * the turn may be run elsewhere, and nothing is lost if it is not. Processes that were stopped already are left alone.
 */
import type { Clock } from '@bellwether/base'
import { signalTo } from './kill-tree.js'
import { processTree, type TreeSelector } from './process-tree.js'
import { readProcesses } from './proc.js'

/** The stopped processes by pid, with their start time. Without /proc: the group of the root, as a negative pid. */
export type Frozen = ReadonlyMap<number, string>

export interface FreezeOptions extends Omit<TreeSelector, 'self' | 'known'> {
  readonly clock: Clock
}

// A scan can miss a process in the middle of fork or exec; the next one finds it.
const emptyScansNeeded = 3
const scanMs = 10
// A process that does not stop is waiting for a disk; it has no effects either. The guard freezes again with its next check.
const scansMax = 100

export async function freezeTree({ clock, ...selector }: FreezeOptions): Promise<Frozen> {
  const frozen = new Map<number, string>()
  let empty = 0
  for (let scan = 0; empty < emptyScansNeeded && scan < scansMax; scan += 1) {
    const processes = readProcesses()
    if (processes.length === 0) {
      if (selector.root !== undefined && signalTo(-selector.root, 'SIGSTOP')) frozen.set(-selector.root, '')
      return frozen
    }
    const running = processTree(processes, { ...selector, known: frozen, self: process.pid }).filter(
      (one) => !one.stopped,
    )
    for (const { pid, start } of running) if (signalTo(pid, 'SIGSTOP')) frozen.set(pid, start)
    empty = running.length === 0 ? empty + 1 : 0
    await clock.sleep(scanMs)
  }
  return frozen
}

export function thawTree(frozen: Frozen): void {
  const processes = new Map(readProcesses().map((one) => [one.pid, one.start]))
  // A pid may have been reused after its process was killed.
  for (const [pid, start] of frozen) if (pid < 0 || processes.get(pid) === start) signalTo(pid, 'SIGCONT')
}
