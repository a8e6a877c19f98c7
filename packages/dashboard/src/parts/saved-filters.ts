/** Filters of a page that a person saved. They stay in this browser. */
import { useSyncExternalStore } from 'react'
import { storage } from '../ports/storage.js'

export type Filter = Readonly<Record<string, string | undefined>>

export interface SavedFilter {
  readonly name: string
  readonly filter: Filter
}

// As many as a menu can show; the oldest are dropped.
const savedMax = 20

const watchers = new Set<() => void>()
const saved = new Map<string, readonly SavedFilter[]>()

function read(place: string): readonly SavedFilter[] {
  const known = saved.get(place) ?? parse(storage.get('browser', place))
  saved.set(place, known)
  return known
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

function write(place: string, next: readonly SavedFilter[]): void {
  saved.set(place, next)
  storage.set('browser', place, JSON.stringify(next))
  for (const watcher of watchers) watcher()
}

/** `place`: the name of the page's list in the browser's storage. */
export const savedFilters = {
  add: (place: string, name: string, filter: Filter) =>
    write(place, [...read(place).filter((one) => one.name !== name), { name, filter }].slice(-savedMax)),
  remove: (place: string, name: string) =>
    write(
      place,
      read(place).filter((one) => one.name !== name),
    ),
}

export const useSavedFilters = (place: string) =>
  useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher)
      return () => void watchers.delete(watcher)
    },
    () => read(place),
  )
