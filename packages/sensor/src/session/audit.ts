/**
 * Runs one audit: start, rows, end. The end is sent even if the start or the rows failed, and reports whether everything readable
 * was scanned. Start, rows and end carry the session id and the audit id, so that the server cannot mix them with another sensor's.
 */
import { auditResponse } from '@bellwether/protocol/pipe'
import type { ScanReport } from '../scan/scanner.js'
import type { DirectoryTime } from '../watch/hot-set.js'
import type { AuditMemory } from './audit-memory.js'
import { endBody, rowsBody, type PipeContext, type Session } from './context.js'
import { ingest } from './ingest.js'
import { SessionObsolete, shortMessage } from './recovery.js'
import type { Progress } from './task.js'

// The time limit for sending the end of a cancelled audit.
const endTimeoutMs = 10_000
// Unreadable directories that the log names per audit.
const deniedShown = 10
// Directories per message to the watch thread.
const followChunk = 5_000
const hotAtLeastMs = 3_600_000

export async function runAudit(
  context: PipeContext,
  session: Session,
  memory: AuditMemory,
  progress: Progress,
): Promise<ScanReport> {
  const { clock, sender, watcher, scanner, key, log, skipped } = context
  const skippedBefore = skipped.count
  const auditId = context.ids.next()
  const metadata = { audit_id: auditId }
  const serverNow = clock.wallMs() / 1_000 + Math.min(0, watcher.drift())
  const learned = memory.learn(serverNow, clock.monotonicMs())
  const path = 'pipe/consistency/audit/start'
  const start = { session_id: session.id, ...metadata }
  const found: DirectoryTime[] = []
  const denied: string[] = []
  let [complete, failure] = [false, 'cancelled']
  let report: ScanReport | undefined
  try {
    // The server may have opened the audit even if its response is lost.
    auditResponse.parse(await sender.send('POST', path, start, { key, signal: progress.signal }))
    report = await scanner.scan({
      mode: 'audit',
      from: ['/'],
      recursive: true,
      // Twice the interval: a file that changed since the audit before the last may change again.
      hotSince: serverNow - Math.max(hotAtLeastMs, 2 * session.auditMs) / 1_000,
      signal: progress.signal,
      knownDirectory: (directory) => memory.get(directory),
      onDirectory: (result) => {
        learned.note(result)
        if (result.miss === 'denied' || result.denied > 0) denied.push(result.path)
        if (result.miss === undefined && !result.unchanged) found.push({ path: result.path, mtime: result.mtime })
        if (found.length >= followChunk) watcher.follow(found.splice(0))
      },
      onProgress: () => progress.moved(),
      onRows: async (rows) => {
        await ingest(context, session, rowsBody('audit', rows, clock.wallMs(), metadata), progress.signal)
      },
    })
    complete = true
  } catch (error) {
    failure = shortMessage(error)
    throw error
  } finally {
    const endMetadata = complete ? { ...metadata, complete } : { ...metadata, complete, error: failure }
    await end(endMetadata).catch((error: unknown) => {
      log.warn({ pipe: context.name, audit_id: auditId, error: shortMessage(error) }, 'audit end not delivered')
      // Without its end a complete audit has no effect, so the next one must not skip directories because of it.
      if (complete || error instanceof SessionObsolete) throw error
    })
  }
  if (denied.length > 0) {
    const paths = denied.slice(0, deniedShown).map((each) => each.slice(0, 200))
    log.warn({ pipe: context.name, directories: denied.length, paths }, 'no permission to read directories')
  }
  learned.adopt()
  watcher.follow(found)
  if (skipped.count === skippedBefore) [skipped.count, skipped.path] = [0, undefined]
  log.info({ pipe: context.name, audit_id: auditId, ...report }, 'audit sent')
  return report

  /** Uses its own signal, because the audit's signal may have aborted. */
  async function end(endMetadata: Readonly<Record<string, unknown>>): Promise<void> {
    const limit = new AbortController()
    const over = new AbortController()
    const timer = clock.sleep(complete ? 4 * endTimeoutMs : endTimeoutMs, over.signal).then(() => limit.abort())
    try {
      await ingest(context, session, endBody('audit', endMetadata), limit.signal, complete ? undefined : 1)
    } finally {
      over.abort()
      await timer
    }
  }
}
