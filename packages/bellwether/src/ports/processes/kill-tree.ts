/**
 * Ends every process of a turn: SIGTERM, a grace period, then SIGKILL, with repeated scans. A process that starts during a scan is
 * found by the next one; the work is done after several consecutive scans without a process. All processes are stopped before the first
 * is killed: otherwise one could start a child that no longer has a living parent when the next scan looks for it.
 */
import type { Clock } from '@bellwether/base'
import { backoffMs } from '../retry.js'
import { processTree, type TreeSelector } from './process-tree.js'
import { readProcesses } from './proc.js'

export interface KillTreeOptions extends Omit<TreeSelector, 'self' | 'known'> {
  readonly clock: Clock
  /** The time between SIGTERM and SIGKILL; 0: SIGKILL at once. */
  readonly graceMs: number
}

// A scan can miss a process in the middle of fork or exec: it has no environment yet, or its parent has just ended.
const emptyScansNeeded = 3
const scanBackoff = { mode: 'exponential', baseMs: 10, multiplier: 2, maxMs: 100, jitterPct: 0 } as const
// A process that survives longer is stuck in the kernel (for example on a dead disk): it is reported, not waited for.
const killMaxMs = 10_000
// A program that forks without end is killed while it runs.
const stopScansMax = 20

/** Returns the pids that did not end: usually none. */
export async function killTree({ clock, graceMs, ...ties }: KillTreeOptions): Promise<readonly number[]> {
  const known = new Map<number, string>()
  // A signal to a group also reaches processes that end before a scan finds them.
  const groups = new Set(ties.root === undefined ? [] : [ties.root])
  const killAtMs = clock.monotonicMs() + graceMs
  const terminated = new Set<number>()
  const stopped = new Set<number>()
  let stopScans = 0
  let scans = 1
  let empty = 0
  for (;;) {
    const living = findMembers({ ...ties, known }, groups)
    const isOver = clock.monotonicMs() >= killAtMs
    const running = isOver && stopScans < stopScansMax ? living.filter((pid) => !stopped.has(pid)) : []
    for (const pid of running) {
      stopped.add(pid)
      signalTo(pid, 'SIGSTOP')
    }
    if (running.length > 0) stopScans += 1
    const kill = isOver && running.length === 0
    empty = living.length === 0 ? empty + 1 : 0
    if (kill || empty === emptyScansNeeded) for (const group of groups) signalTo(-group, 'SIGKILL')
    for (const pid of living) {
      if (kill) signalTo(pid, 'SIGKILL')
      else if (!isOver && !terminated.has(pid)) {
        terminated.add(pid)
        signalTo(pid, 'SIGTERM')
        // A stopped process handles SIGTERM only after SIGCONT.
        signalTo(pid, 'SIGCONT')
      }
    }
    if (empty === emptyScansNeeded) return []
    if (clock.monotonicMs() >= killAtMs + killMaxMs) return living
    await clock.sleep(backoffMs({ backoff: scanBackoff }, scans))
    scans = empty > 0 || isOver ? 1 : scans + 1
  }
}

/** The running members. Records them and their groups for the next scan. */
function findMembers(
  ties: Omit<TreeSelector, 'self'> & { readonly known: Map<number, string> },
  groups: Set<number>,
): number[] {
  const processes = readProcesses()
  const own = processes.find((found) => found.pid === process.pid)
  const tree = processTree(processes, { ...ties, self: process.pid })
  for (const one of tree) {
    ties.known.set(one.pid, one.start)
    if (one.group !== own?.group && one.group > 1) groups.add(one.group)
  }
  // A group without members is forgotten at once, because its number may be reused.
  for (const group of groups) if (!signalTo(-group, 0)) groups.delete(group)
  // Without /proc only the groups are known.
  return processes.length === 0 ? [...groups].map((group) => -group) : tree.map((one) => one.pid)
}

/** Whether the process or group exists. */
export function signalTo(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal)
    return true
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    // EPERM: a process of another user (a setuid program), which the caller reports.
    if (code === 'ESRCH') return false
    if (code === 'EPERM') return true
    throw error
  }
}
