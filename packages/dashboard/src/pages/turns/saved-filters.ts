/** Filters of the Turns page that a person saved. They stay in this browser. */
import { useSyncExternalStore } from 'react'
import type { TurnFilter } from '../../api/queries.js'
import { storage } from '../../ports/storage.js'

export interface SavedFilter {
  readonly name: string
  readonly filter: TurnFilter
}

const place = 'turn-filters'
// As many as a menu can show; the oldest are dropped.
const savedMax = 20

const watchers = new Set<() => void>()
let saved: readonly SavedFilter[] | undefined

function read(): readonly SavedFilter[] {
  saved ??= parse(storage.get('browser', place))
  return saved
}

/** What another version stored is dropped. */
function parse(text: string | undefined): readonly SavedFilter[] {
  try {
    const found: unknown = JSON.parse(text ?? '[]')
    return Array.isArray(found) ? found.filter(isSaved) : []
  } catch {
    // Not JSON: someone else wrote it.
    return []
  }
}

const isSaved = (one: unknown): one is SavedFilter =>
  typeof one === 'object' && one !== null && 'name' in one && typeof one.name === 'string' && 'filter' in one

function write(next: readonly SavedFilter[]): void {
  saved = next
  storage.set('browser', place, JSON.stringify(next))
  for (const watcher of watchers) watcher()
}

export const savedFilters = {
  add: (name: string, filter: TurnFilter) =>
    write([...read().filter((one) => one.name !== name), { name, filter }].slice(-savedMax)),
  remove: (name: string) => write(read().filter((one) => one.name !== name)),
}

export const useSavedFilters = () =>
  useSyncExternalStore((watcher) => {
    watchers.add(watcher)
    return () => void watchers.delete(watcher)
  }, read)
