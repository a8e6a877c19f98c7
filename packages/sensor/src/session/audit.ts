/**
 * One audit: start, rows, end. Always: the end is sent whatever happened in between, and says whether everything readable
 * was scanned; start, rows and end carry the session and the audit's id, so that nobody else's end is taken for ours.
 */
import { auditAnswer } from '@bellwether/protocol'
import type { ScanReport } from '../scan/scanner.js'
import type { AuditMemory } from './audit-memory.js'
import { endBody, rowsBody, type PipeContext, type Session } from './context.js'
import { ingest } from './ingest.js'
import { SessionObsolete, textOf } from './recovery.js'
import type { Progress } from './task.js'

// The end of an audit that was cancelled is still sent, within this time.
const endTimeoutMs = 10_000
const hotAtLeastMs = 3_600_000

export async function runAudit(
  context: PipeContext,
  session: Session,
  memory: AuditMemory,
  progress: Progress,
): Promise<ScanReport> {
  const { clock, sender, source, scanner, key, log } = context
  const auditId = context.ids.next()
  const metadata = { audit_id: auditId }
  const serverNow = clock.wallMs() / 1_000 + Math.min(0, source.drift())
  const learned = memory.learn(serverNow, clock.monotonicMs())
  const path = 'pipe/consistency/audit/start'
  const start = { session_id: session.id, ...metadata }
  auditAnswer.parse(await sender.send('POST', path, start, { key, signal: progress.signal }))
  let [complete, failure] = [false, 'cancelled']
  let report: ScanReport | undefined
  try {
    report = await scanner.scan({
      mode: 'audit',
      from: ['/'],
      recursive: true,
      // Twice the interval: what changed since the audit before the last may well be written to again.
      hotSince: serverNow - Math.max(hotAtLeastMs, 2 * session.auditMs) / 1_000,
      signal: progress.signal,
      memory: (directory) => memory.get(directory),
      onDirectory: (result) => learned.note(result),
      onProgress: () => progress.moved(),
      onRows: async (rows) => {
        await ingest(context, session, rowsBody('audit', rows, clock.wallMs(), metadata), progress.signal)
      },
    })
    complete = true
  } catch (error) {
    failure = textOf(error)
    throw error
  } finally {
    const said = complete ? { ...metadata, complete } : { ...metadata, complete, error: failure }
    await end(said).catch((error: unknown) => {
      log.warn({ pipe: context.name, audit_id: auditId, error: textOf(error) }, 'the end of an audit did not arrive')
      // A complete audit whose end is lost has achieved nothing: the next one must not build on it.
      if (complete || error instanceof SessionObsolete) throw error
    })
  }
  learned.adopt()
  log.info({ pipe: context.name, audit_id: auditId, ...report }, 'audit done')
  return report

  /** On a signal of its own: the audit's has perhaps fired. */
  async function end(said: Readonly<Record<string, unknown>>): Promise<void> {
    const limit = new AbortController()
    const over = new AbortController()
    const timer = clock.sleep(complete ? 4 * endTimeoutMs : endTimeoutMs, over.signal).then(() => limit.abort())
    try {
      await ingest(context, session, endBody('audit', said), limit.signal, complete ? undefined : 1)
    } finally {
      over.abort()
      await timer
    }
  }
}
