/** Chooses where the board looks for claimed files: a view if one shows the task root, else the disk of this machine (V7.1). */
import { defined, systemClock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { localEvidence } from '../../../board/dispatch/evidence/local-evidence.js'
import type { Evidence } from '../../../board/ports.js'
import type { Ids } from '../../../ports/ids.js'
import type { Settings } from '../../../settings/schema.js'
import type { Fusion } from '../../../view/fusion.js'
import { viewEvidence } from '../../../view/queries/file-evidence.js'
import { evidenceWaitSeconds, remoteEvidence } from './remote-evidence.js'
import { viewedEvidence } from './viewed-evidence.js'

/** The views of this process, and the one that shows the task root if the settings do not name another. */
export interface OwnView {
  readonly fusion: Fusion
  readonly view?: string
  readonly source?: string
  /** The path of the task root in the view. */
  readonly path?: string
}

export interface EvidenceSettings {
  readonly settings: Settings['board']
  readonly root: string
  readonly ids: Ids
  /** Absent: this process serves no view. */
  readonly own?: OwnView | undefined
}

export function openEvidence({ settings, root, ids, own }: EvidenceSettings): Evidence {
  const { view_url: url, view_key: key, view: named, view_path: path, view_source: source } = settings
  if (url !== undefined) {
    if (key === undefined || named === undefined)
      throw new InvalidInput(`[board] view_url is set, but ${named === undefined ? 'view' : 'view_key'} is not`, {
        code: 'incomplete_settings',
        hint: 'set the name (view) and the key (view_key) of the view in [board]',
      })
    return remoteEvidence({ url: checkedViewUrl(url), key, view: named, source, path, root, ids })
  }
  const local = localEvidence(root, ids)
  const wanted = named === undefined ? own : own && { fusion: own.fusion, view: named, path, source }
  const view = wanted?.view === undefined ? undefined : wanted.fusion.views.get(wanted.view)
  if (wanted === undefined || view === undefined) return local
  const waitMs = evidenceWaitSeconds * 1_000
  const sourceId = defined({ sourceId: wanted.source })
  const files = viewEvidence({ view, clock: systemClock, waitMs, ...sourceId })
  return viewedEvidence({ files, local, path: wanted.path ?? '/' })
}

function checkedViewUrl(text: string): string {
  if (/^https?:$/.test(URL.canParse(text) ? new URL(text).protocol : '')) return text
  throw new InvalidInput(`[board] view_url must be an http or https URL (got ${JSON.stringify(text)})`, {
    code: 'bad_view_url',
    hint: 'correct view_url in [board] of bellwether.toml',
  })
}
