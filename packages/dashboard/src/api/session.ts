/**
 * The current session. A key lives in this tab only (sessionStorage) and is sent with every request; without one the
 * cookie of a one-time link applies. The first 401 signs out once and notifies the listeners.
 */
import { storage } from '../ports/storage.js'

type Listener = () => void

const listeners = new Set<Listener>()
let refused = false

export const session = {
  key: (): string | undefined => storage.get('tab', 'key'),
  /** True after the server rejected the session. */
  isRefused: (): boolean => refused,
  enter(key: string | undefined): void {
    storage.set('tab', 'key', key)
    refused = false
    notify()
  },
  refuse(): void {
    if (refused) return
    refused = true
    storage.set('tab', 'key', undefined)
    notify()
  },
  listen: (listener: Listener): (() => void) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  },
}

function notify(): void {
  for (const listener of listeners) listener()
}
