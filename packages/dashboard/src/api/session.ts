/**
 * The current session. Secrets live in this tab only (sessionStorage) and are sent with every request: an API key, or the page secret
 * of a one-time link, which also needs the link's cookie. A cookie alone is worth nothing, because the browser sends it to other ports of
 * the same host too. A new tab asks the open tabs of this origin for the page secret. The first 401 signs out once and notifies the listeners.
 */
import { storage } from '../ports/storage.js'
import { askTabs, answerTabs } from '../ports/tabs.js'

type Listener = () => void

const listeners = new Set<Listener>()
let refused = false
let reason: string | undefined

export const session = {
  key: (): string | undefined => storage.get('tab', 'key'),
  /** The page secret of a one-time link. */
  secret: (): string | undefined => storage.get('tab', 'session'),
  /** True after the server rejected the session. */
  isRefused: (): boolean => refused,
  /** Why, if the person should know. */
  reason: (): string | undefined => reason,
  enter({ key, secret }: { readonly key?: string; readonly secret?: string }): void {
    storage.set('tab', 'key', key)
    storage.set('tab', 'session', secret)
    // No secret: it only says that another tab may have one.
    if (secret !== undefined) storage.set('browser', 'signed-in', 'yes')
    refused = false
    reason = undefined
    notify()
  },
  refuse(why?: string): void {
    reason = why ?? reason
    if (refused) return
    refused = true
    storage.set('tab', 'key', undefined)
    storage.set('tab', 'session', undefined)
    storage.set('browser', 'signed-in', undefined)
    notify()
  },
  /** Resolves when this tab has a session, or when no other tab of this origin has answered. */
  async join(): Promise<void> {
    const isNew = session.key() === undefined && session.secret() === undefined
    if (isNew && storage.get('browser', 'signed-in') !== undefined) storage.set('tab', 'session', await askTabs())
    answerTabs(session.secret)
  },
  listen: (listener: Listener): (() => void) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  },
}

function notify(): void {
  for (const listener of listeners) listener()
}
