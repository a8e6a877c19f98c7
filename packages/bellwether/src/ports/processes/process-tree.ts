/**
 * Selects the processes that belong to a turn (pure): those with the token, those in a session or process group of a member, and
 * the children of members. So a program that overwrites its environment, or starts a child with an empty one, is still found.
 */
import type { Process } from './proc.js'

export interface TreeSelector {
  readonly wanted: (token: string) => boolean
  /** The process that was started for the turn, the leader of its session; absent if unknown. */
  readonly root?: number
  /** Earlier members by pid, with their start time: they stay members after their parent has ended. */
  readonly known?: ReadonlyMap<number, string>
  /** The calling process: it, its session and its group never belong to the turn. */
  readonly self: number
}

export function processTree(processes: readonly Process[], { wanted, root, self, known }: TreeSelector): Process[] {
  const own = processes.find((found) => found.pid === self)
  const foreign = new Set([0, 1, own?.session, own?.group])
  const sessions = new Set<number>()
  const pids = new Set<number>()
  if (root !== undefined) sessions.add(root)
  const members = new Set<Process>()
  const belongs = (one: Process) =>
    (one.token !== undefined && wanted(one.token)) ||
    (sessions.has(one.session) && !foreign.has(one.session)) ||
    (sessions.has(one.group) && !foreign.has(one.group)) ||
    pids.has(one.parent) ||
    known?.get(one.pid) === one.start
  // A new member may connect further processes; repeat until none is added.
  for (let grown = true; grown;) {
    grown = false
    for (const one of processes) {
      if (one.pid === self || one.pid === 1 || members.has(one) || !belongs(one)) continue
      members.add(one)
      pids.add(one.pid)
      sessions.add(one.session)
      sessions.add(one.group)
      grown = true
    }
  }
  return [...members].filter((one) => !one.zombie)
}
