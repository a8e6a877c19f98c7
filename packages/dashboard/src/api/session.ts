/**
 * Who is looking. A key lives in this tab only (sessionStorage) and is sent with every request; without one the browser's cookie
 * from a one-time link speaks. Always: the first 401 signs out, once, and whoever shows pages is told.
 */
import { storage } from '../ports/storage.js'

type Told = () => void

const listeners = new Set<Told>()
let refused = false

export const session = {
  key: (): string | undefined => storage.get('tab', 'key'),
  /** True once the server refused what we have. */
  isRefused: (): boolean => refused,
  enter(key: string | undefined): void {
    storage.set('tab', 'key', key)
    refused = false
    tell()
  },
  refuse(): void {
    if (refused) return
    refused = true
    storage.set('tab', 'key', undefined)
    tell()
  },
  listen: (listener: Told): (() => void) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  },
}

function tell(): void {
  for (const listener of listeners) listener()
}
