/** Stores the alerts of a process in the database, from where a PMO sends them to people and retries. */
import type { AlertOptions } from '../../board/dispatch/alerts.js'
import type { Kernel } from '../../kernel/kernel.js'
import { putNotices } from '../../kernel/verbs/notices.js'
import { openChannels } from '../../ports/channels.js'
import type { Settings } from '../../settings/schema.js'

/** `projectId`: the project of the tasks. Undefined if the settings have no channel. */
export function storeAlerts(
  { db, ids }: Pick<Kernel, 'db' | 'ids'>,
  notify: Settings['notify'],
  projectId?: string,
): AlertOptions['send'] {
  const channels = openChannels(notify).map(({ name }) => name)
  if (channels.length === 0) return undefined
  return async ({ key, kind, at: _at, ...content }) => {
    // Two task roots may have tasks with the same id.
    const noticeId = key === undefined ? `${kind} ${ids.next()}` : `${content.root ?? ''} ${key}`
    const path =
      projectId === undefined || content.taskId === undefined
        ? '/'
        : `/p/${projectId}/board?task=${encodeURIComponent(content.taskId)}`
    await putNotices(db, [{ noticeId, kind, projectId, content: { ...content, path } }], channels)
  }
}
