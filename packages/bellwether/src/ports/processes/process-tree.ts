/**
 * Which processes belong to a turn. Pure. The token decides; besides it, everyone in a session or group that a member made, and
 * every child of a member: a program that overwrites its own environment (to show a title) or starts a child with an empty one
 * is still found while one of these ties holds.
 */
import type { Process } from './proc.js'

export interface TreeSelector {
  readonly wanted: (token: string) => boolean
  /** The process that was started for the turn, leader of its own session; absent when nobody knows it any more. */
  readonly root?: number
  /** Who was a member before, by pid with its start: a tie that was seen once holds, also when a parent has gone since. */
  readonly known?: ReadonlyMap<number, string>
  /** Never a member: who asks, and with it its session and group. */
  readonly self: number
}

export function processTree(processes: readonly Process[], { wanted, root, self, known }: TreeSelector): Process[] {
  const own = processes.find((one) => one.pid === self)
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
  // Each round may tie in others; it ends when nobody is added.
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
