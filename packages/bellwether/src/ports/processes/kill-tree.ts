/**
 * Ends every process of a turn: TERM, a grace, then KILL, looking again until nobody is left. Always: a process that was born
 * while we looked is found by the next look; it is over only after several looks in a row have found nobody.
 */
import type { Clock } from '@bellwether/base'
import { backoffMs } from '../retry.js'
import { processTree, type TreeSelector } from './process-tree.js'
import { readProcesses } from './proc.js'

export interface KillTreeOptions extends Omit<TreeSelector, 'self' | 'known'> {
  readonly clock: Clock
  /** How long TERM may take before KILL follows; 0: KILL at once. */
  readonly graceMs: number
}

// A process in the middle of fork or exec can escape one look: it has no environment yet, or its parent has just gone.
const emptyScansNeeded = 3
const lookBackoff = { mode: 'exponential', baseMs: 10, multiplier: 2, maxMs: 100, jitterPct: 0 } as const
// Longer than this only a process lives that the kernel itself cannot end (a dead disk): it is reported, not waited for.
const killMaxMs = 10_000

/** Answers the pids that would not go: usually none. */
export async function killTree({ clock, graceMs, ...ties }: KillTreeOptions): Promise<readonly number[]> {
  const known = new Map<number, string>()
  // A signal to a group reaches also those who live too short to be looked at.
  const groups = new Set(ties.root === undefined ? [] : [ties.root])
  const killAtMs = clock.monotonicMs() + graceMs
  const terminated = new Set<number>()
  let attempt = 1
  let empty = 0
  for (;;) {
    const living = findMembers({ ...ties, known }, groups)
    const kill = clock.monotonicMs() >= killAtMs
    empty = living.length === 0 ? empty + 1 : 0
    if (kill || empty === emptyScansNeeded) for (const group of groups) signalTo(-group, 'SIGKILL')
    for (const pid of living) {
      if (kill) signalTo(pid, 'SIGKILL')
      else if (!terminated.has(pid)) {
        terminated.add(pid)
        signalTo(pid, 'SIGTERM')
        // One that was stopped would heed nothing until it is let go on.
        signalTo(pid, 'SIGCONT')
      }
    }
    if (empty === emptyScansNeeded) return []
    if (clock.monotonicMs() >= killAtMs + killMaxMs) return living
    await clock.sleep(backoffMs({ backoff: lookBackoff }, attempt))
    attempt = empty > 0 || kill ? 1 : attempt + 1
  }
}

/** The living members. Remembers them and their groups for the next look. */
function findMembers(
  ties: Omit<TreeSelector, 'self'> & { readonly known: Map<number, string> },
  groups: Set<number>,
): number[] {
  const processes = readProcesses()
  const own = processes.find((one) => one.pid === process.pid)
  const family = processTree(processes, { ...ties, self: process.pid })
  for (const one of family) {
    ties.known.set(one.pid, one.start)
    if (one.group !== own?.group && one.group > 1) groups.add(one.group)
  }
  // A group without members is forgotten at once: its number may become someone else's.
  for (const group of groups) if (!signalTo(-group, 0)) groups.delete(group)
  // Without /proc the groups are all there is to go by.
  return processes.length === 0 ? [...groups].map((group) => -group) : family.map((one) => one.pid)
}

/** Whether there was someone to hear it. */
function signalTo(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal)
    return true
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    // Gone is what was wanted; another user's process (a setuid program) cannot be ended from here, and the caller reports it.
    if (code === 'ESRCH') return false
    if (code === 'EPERM') return true
    throw error
  }
}
