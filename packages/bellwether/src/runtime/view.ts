/**
 * A process that serves workspace views and nothing else: the views, their HTTP, and the sweep that lets time pass for
 * them. It holds everything in memory; after a restart sensors fill it again. A public address needs keys that were given,
 * because a generated one has no way to the sensors but a terminal.
 */
import type { AddressInfo } from 'node:net'
import { errorMessage, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { viewKeys } from '../http/auth.js'
import { makeApp } from '../http/app.js'
import { uuidv7 } from '../ports/ids.js'
import type { Settings } from '../settings/schema.js'
import { openFusion } from '../view/fusion.js'
import type { ViewSettings } from '../view/view.js'
import { holdLifeline } from './shutdown.js'
import { openLog } from './logger.js'

export interface ServeViewOptions {
  readonly settings: Settings
  readonly views: readonly string[]
  /** [view, key]; a view without one gets a new key, told once. */
  readonly keys: readonly (readonly [view: string, key: string])[]
  readonly host?: string
  readonly port?: number
  readonly strict?: boolean
  readonly live?: boolean
  readonly entryMax?: number
  readonly parentPipe?: boolean
  readonly onReady?: (facts: Readonly<Record<string, unknown>>) => void
}

const keyBytes = 24
export const isLoopback = (host: string) => /^(?:127(?:\.\d{1,3}){3}|::1|localhost)$/.test(host)

export function viewSettings(view: Settings['view'], changed: Partial<ViewSettings> = {}): ViewSettings {
  return {
    sessionTimeoutSeconds: view.session_timeout_seconds,
    auditIntervalSeconds: view.audit_interval_seconds,
    sentinelIntervalSeconds: view.sentinel_interval_seconds,
    hotFileThresholdSeconds: view.hot_file_threshold_seconds,
    tombstoneTtlSeconds: view.tombstone_ttl_seconds,
    live: view.live,
    ...changed,
  }
}

export async function serveView(options: ServeViewOptions): Promise<number> {
  const { settings } = options
  const host = options.host ?? settings.server.host
  const keyless = options.views.filter((view) => !options.keys.some(([owner]) => owner === view))
  if (!isLoopback(host) && keyless.length > 0) {
    throw new InvalidInput(`${host} can be reached from other machines, and view ${keyless[0]} has no key`, {
      code: 'keys_needed',
      hint: 'give --key NAME=KEY or --keys-file FILE, or listen on 127.0.0.1',
    })
  }
  const made = keyless.map((view) => [view, Buffer.from(systemRandom.bytes(keyBytes)).toString('base64url')] as const)
  const keys = viewKeys([...options.keys, ...made])
  const log = openLog('view')
  const lifeline = holdLifeline({ parentPipe: options.parentPipe ?? false, log })
  try {
    const each = viewSettings(settings.view, {
      ...(options.live === undefined ? {} : { live: options.live }),
      ...(options.strict === undefined ? {} : { strict: options.strict }),
      ...(options.entryMax === undefined ? {} : { entryMax: options.entryMax }),
    })
    const fusion = openFusion({
      views: Object.fromEntries(options.views.map((name) => [name, each])),
      clock: systemClock,
      ids: uuidv7(systemClock, systemRandom),
      random: systemRandom,
      log,
    })
    const app = makeApp({ fusion, keys, log, signal: lifeline.signal })
    app.server.on('error', (error: Error) => fusion.receiver(error.message))
    await app.listen({ host, port: options.port ?? settings.server.port }).catch((error: unknown) => {
      throw new InvalidInput(`cannot listen on ${host}: ${errorMessage(error)}`, {
        code: 'cannot_listen',
        cause: error,
      })
    })
    const { port } = app.server.address() as AddressInfo
    const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
    options.onReady?.({
      ready: true,
      role: 'view',
      url,
      views: options.views,
      keys: Object.fromEntries(made),
      pid: process.pid,
    })
    log.info({ url, views: options.views }, 'the view is ready')
    await fusion.run(lifeline.signal)
    fusion.close()
    await app.close()
    return 0
  } finally {
    lifeline.release()
  }
}
