/** Opens the workspace views that a process serves, with the settings of section [view]. Each view has its own type (V5.8). */
import { type Log, systemClock, systemRandom } from '@bellwether/base'
import type { Ids } from '../../ports/ids.js'
import type { Settings } from '../../settings/schema.js'
import { type Fusion, openFusion } from '../../view/fusion.js'
import type { ViewSettings } from '../../view/view.js'

export interface ViewsOptions {
  readonly names: readonly string[]
  readonly settings: Settings['view']
  readonly overrides?: Partial<ViewSettings>
  /** Views that are persistent, besides those of the settings. */
  readonly persistent?: readonly string[]
  readonly ids: Ids
  readonly log: Log
}

export function openViews({ names, settings, overrides, persistent = [], ids, log }: ViewsOptions): Fusion {
  const listed = (text: string) => text.split(',').map((name) => name.trim())
  const persistentNames = new Set([...listed(settings.persistent), ...persistent])
  const strictNames = new Set(listed(settings.strict))
  const of = (name: string): ViewSettings => ({
    sessionTimeoutSeconds: settings.session_timeout_seconds,
    auditIntervalSeconds: settings.audit_interval_seconds,
    sentinelIntervalSeconds: settings.sentinel_interval_seconds,
    hotFileThresholdSeconds: settings.hot_file_threshold_seconds,
    tombstoneTtlSeconds: settings.tombstone_ttl_seconds,
    live: settings.live && !persistentNames.has(name),
    strict: strictNames.has(name),
    ...overrides,
  })
  const views = Object.fromEntries(names.map((name) => [name, of(name)]))
  return openFusion({ views, clock: systemClock, ids, random: systemRandom, log })
}
