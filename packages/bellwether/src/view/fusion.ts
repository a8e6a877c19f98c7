/**
 * All views of one process, with their health and their periodic sweep. Servers call `openFusion`; tests call `step` instead
 * of waiting.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { Ids } from '../ports/ids.js'
import { loop } from '../ports/loop.js'
import { HealthRegistry, httpReceiver } from './health.js'
import { View, type ViewSettings } from './view.js'

export interface FusionOptions {
  readonly views: Readonly<Record<string, ViewSettings>>
  readonly clock: Clock
  readonly ids: Ids
  readonly random: Random
  readonly log: Log
}

export interface Fusion {
  readonly views: ReadonlyMap<string, View>
  readonly health: HealthRegistry
  readonly clock: Clock
  readonly log: Log
  view(name: string): View
  /** One sweep: sessions, scans, audits and suspects that are due. */
  step(): void
  /** Sweeps until the signal aborts; a failed sweep is logged and repeated. */
  run(signal: AbortSignal): Promise<void>
  /** Reports each error of the HTTP receiver, and undefined when it listens again. */
  receiver(error: string | undefined): void
  close(): void
}

/** Much shorter than every timeout, much longer than one sweep takes. */
const sweepMs = 500

export function openFusion(options: FusionOptions): Fusion {
  const { clock, ids, log, random } = options
  const health = new HealthRegistry((change) => {
    const fields = { ...change, health: true }
    if (change.to === 'ok') log.info(fields, 'health unit recovered')
    else log.warn(fields, 'health unit changed')
  })
  health.put({ kind: 'receiver', name: 'http', state: 'ok', restarts: 0, error: undefined, dependsOn: [] })
  const views = new Map<string, View>()
  for (const [name, settings] of Object.entries(options.views)) {
    const seed = new DataView(random.bytes(4).slice().buffer).getInt32(0)
    views.set(name, new View({ name, settings, clock, ids, log, health, seed }))
  }
  const step = () => {
    for (const view of views.values()) view.sweepAndRecover(sweepMs)
  }
  return {
    views,
    health,
    clock,
    log,
    view(name) {
      const view = views.get(name)
      if (view !== undefined) return view
      throw new Terminal(`There is no view ${JSON.stringify(name.slice(0, 80))}`, {
        code: 'unknown_view',
        hint: 'GET /views lists the views of this server',
      })
    },
    step,
    run: (signal) =>
      loop({ name: 'view sweep', intervalMs: sweepMs, clock, log, signal, steady: true }, async () => step()),
    receiver(error) {
      if (error === undefined) health.recover(httpReceiver)
      else health.fail(httpReceiver, error)
    },
    close() {
      for (const view of views.values()) view.close()
    },
  }
}
