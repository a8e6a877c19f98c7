/**
 * Sends one batch of a scan. A scan is long and most failures are short, so each batch is retried before the scan fails. Rows
 * are idempotent: a batch that arrives twice does no harm. A batch that is too large is sent in parts.
 */
import { Retryable, type IngestResponse, type IngestRequest } from '@bellwether/protocol'
import { ingestResponse } from '@bellwether/protocol/pipe'
import type { PipeContext, Session } from './context.js'
import { BatchTooLarge, SessionObsolete } from './recovery.js'
import { splitBatch } from './split-batch.js'

// Pauses of 1 + 2 + 4 + 8 s: longer than a restart of the server takes.
const triesMax = 5
const firstPauseMs = 1_000

export async function ingest(
  context: PipeContext,
  session: Session,
  body: unknown,
  signal: AbortSignal,
  tries = triesMax,
): Promise<IngestResponse> {
  const path = `pipe/ingest/${encodeURIComponent(session.id)}/events`
  for (let tried = 1; ; tried += 1) {
    try {
      return ingestResponse.parse(await context.sender.send('POST', path, body, { key: context.key, signal }))
    } catch (error) {
      if (error instanceof BatchTooLarge && Buffer.isBuffer(body)) return inParts(body)
      if (error instanceof SessionObsolete || !(error instanceof Retryable) || tried >= tries) throw error
      await context.clock.sleep(firstPauseMs * 2 ** (tried - 1), signal)
      if (signal.aborted) throw error
    }
  }

  async function inParts(tooLarge: Buffer): Promise<IngestResponse> {
    const request = JSON.parse(tooLarge.toString()) as IngestRequest
    let answer: IngestResponse = { status: 'ok', count: 0 }
    for (const events of await splitBatch(context, request.events, signal))
      answer = await ingest(context, session, Buffer.from(JSON.stringify({ ...request, events })), signal, tries)
    return answer
  }
}
