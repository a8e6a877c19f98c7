/**
 * `bellwether view`: serves workspace views without a database. Views live in memory; after a restart the sensors fill them
 * again. A public address needs keys from the caller, because a generated key is only printed on this terminal.
 */
import { defined, environment, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { makeApp } from '../http/app.js'
import { viewKeys } from '../http/auth.js'
import { uuidv7 } from '../ports/ids.js'
import { loadSettings } from '../settings/load.js'
import { openLog } from './logger.js'
import { isLoopback, openReceiver } from './parts/listen.js'
import { openViews } from './parts/views.js'
import type { ProcessOptions } from './process.js'
import { listenForShutdown } from './shutdown.js'

export interface ViewProcessOptions extends ProcessOptions {
  readonly views: readonly string[]
  /** [view, key] pairs. A view without a key gets a new one, which the ready line shows once. */
  readonly keys: readonly (readonly [view: string, key: string])[]
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly strict?: boolean | undefined
  /** Views that stay readable after their last sensor has left; true: all of them. */
  readonly persistent?: readonly string[] | true | undefined
  readonly entryMax?: number | undefined
}

const keyBytes = 24

export async function runViewProcess(options: ViewProcessOptions): Promise<number> {
  const { views, strict, entryMax } = options
  const persistent = options.persistent === true ? views : options.persistent
  const settings = loadSettings({ folder: options.folder, env: environment() })
  const host = options.host ?? settings.server.host
  const keyless = views.filter((view) => !options.keys.some(([owner]) => owner === view))
  if (!isLoopback(host) && keyless.length > 0) {
    throw new InvalidInput(`View "${keyless[0]}" has no key, and other machines can reach ${host}`, {
      code: 'keys_needed',
      hint: 'give --key NAME=KEY or --keys-file FILE, or listen on 127.0.0.1',
    })
  }
  const generated = keyless.map(
    (view) => [view, Buffer.from(systemRandom.bytes(keyBytes)).toString('base64url')] as const,
  )
  const keys = viewKeys([...options.keys, ...generated])
  const log = openLog('view')
  const shutdown = listenForShutdown({ parentPipe: options.parentPipe ?? false, log })
  const { signal } = shutdown
  try {
    const overrides = defined({ strict, entryMax })
    const ids = uuidv7(systemClock, systemRandom)
    const fusion = openViews({ names: views, settings: settings.view, overrides, ids, log, ...defined({ persistent }) })
    const receiver = openReceiver({ clock: systemClock, log, signal, onChange: (error) => fusion.receiver(error) })
    const app = makeApp({ fusion, keys, log, signal })
    const url = await receiver.listen(app, host, options.port ?? settings.server.port)
    options.onReady?.({ ready: true, role: 'view', url, views, keys: Object.fromEntries(generated), pid: process.pid })
    log.info({ url, views }, 'view is ready')
    await fusion.run(signal)
    fusion.close()
    await app.close()
    return 0
  } finally {
    shutdown.release()
  }
}
