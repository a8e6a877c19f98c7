/**
 * The keys of the database, in memory. Always: every live key is here, so that a wrong one costs the database nothing; a revoked
 * or rotated one is good for `refreshMs` at most; while the database is away, whoever had a key keeps it. Hashes are compared in
 * constant time.
 */
import { timingSafeEqual } from 'node:crypto'
import type { Clock, Log } from '@bellwether/base'
import { hashKey, readLiveKeys, touchKeys, type LiveKey } from '../kernel/access/api-keys.js'
import type { Queryable } from '../ports/database/database.js'
import { loop } from '../ports/loop.js'
import type { Grant, Keys } from './auth.js'

export interface KeyStore extends Keys {
  /** The grant of a key by its id, while the key is good. */
  byId(keyId: string): Grant | undefined
  refresh(): Promise<void>
  /** Looks for changes until the signal fires. */
  run(signal: AbortSignal): Promise<void>
}

export interface KeyStoreOptions {
  readonly db: Queryable
  readonly clock: Clock
  readonly log: Log
  /** The only view that is served, if there is one: an admin's key can feed it. */
  readonly onlyView?: string | undefined
}

// How long a revoked key may still open the door: one small query every two seconds.
const refreshMs = 2_000
// A key that was made a moment ago must work, and a flood of wrong ones must not become a flood of queries.
const unknownPauseMs = 250
// "Last used" is for people: a minute is exact enough.
const touchMs = 60_000

export function openKeyStore({ db, clock, log, onlyView }: KeyStoreOptions): KeyStore {
  let byHash = new Map<string, { readonly hash: Buffer; readonly grant: Grant }>()
  let ids = new Map<string, Grant>()
  let readAtMs = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined
  const used = new Set<string>()
  let touchedAtMs = clock.monotonicMs()

  async function read(): Promise<void> {
    const startedMs = clock.monotonicMs()
    const keys = await readLiveKeys(db)
    const next: typeof byHash = new Map()
    for (const key of keys) {
      const grant = grantOf(key, onlyView)
      for (const hash of [key.previous_hash, key.hash])
        if (hash !== null) next.set(hash.toString('base64'), { hash, grant })
    }
    byHash = next
    ids = new Map([...next.values()].map(({ grant }) => [grant.keyId, grant]))
    readAtMs = startedMs
  }

  /** Those who ask meanwhile share one question. */
  function refresh(): Promise<void> {
    reading ??= read().finally(() => (reading = undefined))
    return reading
  }

  function find(hash: Buffer): Grant | undefined {
    const found = byHash.get(hash.toString('base64'))
    return found !== undefined && timingSafeEqual(found.hash, hash) ? found.grant : undefined
  }

  async function touch(): Promise<void> {
    if (used.size === 0 || clock.monotonicMs() - touchedAtMs < touchMs) return
    touchedAtMs = clock.monotonicMs()
    const names = [...used]
    used.clear()
    await touchKeys(db, names)
  }

  return {
    refresh,
    byId: (keyId) => ids.get(keyId),
    run: (signal) =>
      loop({ name: 'the look at the keys', intervalMs: refreshMs, clock, log, signal, steady: true }, async () => {
        await refresh()
        await touch()
      }),
    async grant(key) {
      const hash = hashKey(key)
      let grant = find(hash)
      if (grant === undefined && clock.monotonicMs() - readAtMs >= unknownPauseMs) {
        await refresh().catch((error: unknown) => {
          log.warn({ err: error }, 'the keys cannot be read; those known are still good')
          if (byHash.size === 0) throw error
        })
        grant = find(hash)
      }
      if (grant !== undefined) used.add(grant.keyId)
      return grant
    },
  }
}

export function grantOf(key: LiveKey, onlyView?: string): Grant {
  const { view_name: view, project_id: project } = key
  const unlimited = view === null && project === null
  // An admin's key without a limit can feed the only view there is; one that is limited to a project reaches no view at all.
  const fallback = project === null ? onlyView : undefined
  const feeds = key.role === 'sensor' ? (view ?? undefined) : key.role === 'admin' ? (view ?? fallback) : undefined
  return {
    keyId: key.key_id,
    name: key.name,
    role: key.role,
    view: feeds,
    project: project ?? undefined,
    may: (asked) => unlimited || view === asked,
    reaches: (asked) => unlimited || project === asked,
  }
}
