/**
 * What recovery and budget write down for a task and one of its reasons or agents: read from the task's fields, and shown as
 * the state files that other programs read. Always: what does not have the expected form counts as absent; a cache is made
 * from the log alone, so that the same log gives the same bytes. Pure.
 */
import type { Task } from '../log/task.js'

/** The key of an entry in a state file: `taskId|reasonCode`, `taskId|agent`. */
export const entryKey = (taskId: string, second: string) => `${taskId}|${second}`

/** An instant as the files of a task root write it: whole seconds, UTC. */
export function isoSeconds(seconds: number): string {
  // Beyond the calendar of JavaScript there is only the end of it: a clock gone mad must not throw here.
  const ms = Math.min(Math.max(0, Math.floor(seconds)) * 1_000, 8.64e15)
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** The entries of one field of a task, by their name; those of another form are left out. */
export function recordField<E>(task: Task, field: string, read: (value: unknown) => E | undefined): Map<string, E> {
  const found = new Map<string, E>()
  const value = Object.hasOwn(task.fields, field) ? task.fields[field] : undefined
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return found
  for (const [name, raw] of Object.entries(value)) {
    const entry = read(raw)
    if (entry !== undefined) found.set(name, entry)
  }
  return found
}

export type Named = readonly [key: string, entry: object]

/** `{entries, updatedAt}`: sorted, and dated by the log's last event. */
export function cacheText(named: Named[], lastEventAt: string | null): string {
  named.sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0))
  return `${JSON.stringify({ entries: Object.fromEntries(named), updatedAt: lastEventAt ?? '' }, undefined, 2)}\n`
}
