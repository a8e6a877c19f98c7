/**
 * Caches the database's API keys in memory. It holds every live key, and unknown keys share a query; a revoked or
 * rotated key works for at most `refreshMs` longer; while the database is unavailable, known keys keep working. Hashes are
 * compared in constant time.
 */
import { timingSafeEqual } from 'node:crypto'
import type { Clock, Log } from '@bellwether/base'
import { hashKey, readLiveKeys, touchKeys, type LiveKey } from '../kernel/access/api-keys.js'
import type { Queryable } from '../ports/database/database.js'
import { loop } from '../ports/loop.js'
import type { Grant, Keys } from './auth.js'

export interface KeyStore extends Keys {
  /** The grant of a key that is in memory. */
  known(key: string): Grant | undefined
  /** The grant of a live key by its id. */
  byId(keyId: string): Grant | undefined
  refresh(): Promise<void>
  /** Refreshes until the signal fires. */
  run(signal: AbortSignal): Promise<void>
}

export interface KeyStoreOptions {
  readonly db: Queryable
  readonly clock: Clock
  readonly log: Log
  /** The only served view, if there is exactly one: an admin key can feed it. */
  readonly onlyView?: string | undefined
}

// How long a revoked key may still work; costs one small query every two seconds.
const refreshMs = 2_000
// A new key must work at once, but a flood of unknown keys must not become a flood of queries: unknown keys wait for a common one.
const unknownPauseMs = 250
// Longer texts are not keys and are not hashed.
const keyMax = 512
// "Last used" is for people: one minute is precise enough.
const touchMs = 60_000

export function openKeyStore({ db, clock, log, onlyView }: KeyStoreOptions): KeyStore {
  let byHash = new Map<string, { readonly hash: Buffer; readonly grant: Grant }>()
  let ids = new Map<string, Grant>()
  let readAtMs = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined
  let nextRead: Promise<void> | undefined
  const used = new Set<string>()
  let touchedAtMs = clock.monotonicMs()

  async function read(): Promise<void> {
    const startedMs = clock.monotonicMs()
    const keys = await readLiveKeys(db)
    const next: typeof byHash = new Map()
    for (const key of keys) {
      for (const hash of [key.previous_hash, key.hash]) {
        if (hash === null) continue
        const name = hash.toString('base64')
        next.set(name, { hash, grant: { ...grantOf(key, () => byHash.has(name), onlyView), generation: name } })
      }
    }
    byHash = next
    // The current secret of a key comes after the one that it replaced.
    ids = new Map([...next.values()].map(({ grant }) => [grant.keyId, grant]))
    readAtMs = startedMs
  }

  /** Concurrent callers share one query. */
  function refresh(): Promise<void> {
    reading ??= read().finally(() => (reading = undefined))
    return reading
  }

  /** A query that starts after this call, so that it sees a key that was created before. Callers share it until it starts. */
  function readAgain(): Promise<void> {
    nextRead ??= (async () => {
      await clock.sleep(Math.max(0, readAtMs + unknownPauseMs - clock.monotonicMs()))
      while (reading !== undefined) await reading.catch(() => undefined) // its own caller reports the error
      nextRead = undefined
      await refresh()
    })()
    return nextRead
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
    known(key) {
      const grant = key.length > keyMax ? undefined : find(hashKey(key))
      if (grant !== undefined) used.add(grant.keyId)
      return grant
    },
    run: (signal) =>
      loop({ name: 'refresh API keys', intervalMs: refreshMs, clock, log, signal, steady: true }, async () => {
        await refresh()
        await touch()
      }),
    async grant(key) {
      const hash = hashKey(key)
      let grant = find(hash)
      if (grant === undefined) {
        await readAgain().catch((error: unknown) => {
          log.warn({ err: error }, 'cannot read API keys; known keys stay valid')
          if (byHash.size === 0) throw error
        })
        grant = find(hash)
      }
      if (grant !== undefined) used.add(grant.keyId)
      return grant
    },
  }
}

export function grantOf(key: Omit<LiveKey, 'hash' | 'previous_hash'>, isLive: () => boolean, onlyView?: string): Grant {
  const { view_name: view, project_id: project } = key
  const unlimited = view === null && project === null
  // An unlimited admin key can feed the only view; a key limited to a project reaches no view.
  const fallback = project === null ? onlyView : undefined
  const feeds = key.role === 'sensor' ? (view ?? undefined) : key.role === 'admin' ? (view ?? fallback) : undefined
  return {
    keyId: key.key_id,
    name: key.name,
    role: key.role,
    view: feeds,
    project: project ?? undefined,
    targets: key.targets ?? undefined,
    may: (other) => unlimited || view === other,
    reaches: (other) => unlimited || project === other,
    isLive,
  }
}
