/**
 * Sends the batches of a scan, one after the other. A scan is long and a hiccup short: each batch is tried a few times
 * before the whole scan fails. Rows say what is there, so that a batch that arrives twice does no harm.
 */
import { ingestAnswer, Retryable, type IngestAnswer } from '@bellwether/protocol'
import type { PipeContext, Session } from './context.js'
import { SessionObsolete } from './recovery.js'

// 1 + 2 + 4 + 8 s: longer than a restart of the server takes.
const triesMax = 5
const firstPauseMs = 1_000

export async function ingest(
  context: PipeContext,
  session: Session,
  body: unknown,
  signal: AbortSignal,
  tries = triesMax,
): Promise<IngestAnswer> {
  const path = `pipe/ingest/${encodeURIComponent(session.id)}/events`
  for (let tried = 1; ; tried += 1) {
    try {
      return ingestAnswer.parse(await context.sender.send('POST', path, body, { key: context.key, signal }))
    } catch (error) {
      if (error instanceof SessionObsolete || !(error instanceof Retryable) || tried >= tries) throw error
      await context.clock.sleep(firstPauseMs * 2 ** (tried - 1), signal)
      if (signal.aborted) throw error
    }
  }
}
