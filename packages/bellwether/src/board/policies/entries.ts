/**
 * The recovery and budget entries of a task: read from its fields, and formatted for the state files of other programs.
 * Malformed entries count as absent. The same log gives the same bytes. Pure.
 */
import { isObject } from '@bellwether/base'
import type { Task } from '../log/task.js'

/** The key of an entry in a state file: `taskId|reasonCode`, `taskId|agent`. */
export const entryKey = (taskId: string, second: string) => `${taskId}|${second}`

/** A time as the files of a task root write it: full seconds, UTC. */
export function isoSeconds(seconds: number): string {
  // The last date that JavaScript can represent: a wrong clock must not throw here.
  const ms = Math.min(Math.max(0, Math.floor(seconds)) * 1_000, 8.64e15)
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** The valid entries of one field of a task, by name. */
export function recordField<E>(task: Task, field: string, read: (value: unknown) => E | undefined): Map<string, E> {
  const found = new Map<string, E>()
  const value = Object.hasOwn(task.fields, field) ? task.fields[field] : undefined
  if (!isObject(value)) return found
  for (const [name, raw] of Object.entries(value)) {
    const entry = read(raw)
    if (entry !== undefined) found.set(name, entry)
  }
  return found
}

export type Named = readonly [key: string, entry: object]

/** `{entries, updatedAt}`: sorted, with the time of the last event. */
export function cacheText(named: Named[], lastEventAt: string | null): string {
  named.sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0))
  return `${JSON.stringify({ entries: Object.fromEntries(named), updatedAt: lastEventAt ?? '' }, undefined, 2)}\n`
}
