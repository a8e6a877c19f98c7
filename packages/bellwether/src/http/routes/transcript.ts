/**
 * Transcripts: read in pages, followed live, downloaded as text, and appended to by workers over HTTP. A live reader gets every stored entry once, in
 * order, and then the end of the turn: it looks whether the turn has ended before it reads, because nothing is appended after the end.
 */
import { Readable } from 'node:stream'
import { block, type Random } from '@bellwether/base'
import { Retryable, transcriptText } from '@bellwether/protocol'
import type { TurnRow } from '@bellwether/protocol/http'
import { readTranscript, readTranscriptBefore } from '../../kernel/reads/transcript.js'
import { readTurn } from '../../kernel/reads/turns.js'
import { splitContent } from '../../kernel/verbs/content/append_transcript.js'
import type { Bell } from '../../ports/bell/bell.js'
import { noTurn, type Api, type KernelParts, type RequestOf } from '../api.js'
import { fenceOf, stale } from '../remote/fence.js'
import { serveStream, type Stream } from '../sse.js'
import { openTranscriptBell } from '../transcript-bell.js'

export interface TranscriptParts extends KernelParts {
  readonly bell: Pick<Bell, 'listen'>
  readonly random: Pick<Random, 'next'>
  readonly workerSettings: { readonly transcriptMaxBytes: number }
}

const pageMax = 200
// Rings are rarely lost; then a reader is this late.
const pollMs = 5_000
const retryMs = 1_000 // while the database is unavailable
// A content of 16,384 characters has at most this many pieces.
const piecesMax = 4

type Followed = 'GET /projects/:project/turns/:turn/transcript/events'

export function transcriptRoutes(api: Api, parts: TranscriptParts): void {
  const { kernel, tail, clock } = parts
  const { db } = kernel
  const bell = openTranscriptBell(parts.bell)
  const serve = serveStream('transcript of a turn', parts)

  async function turnOf({ project, turn }: { readonly project: string; readonly turn: string }): Promise<TurnRow> {
    const found = await readTurn(db, project, turn)
    if (found === undefined) throw noTurn(turn, project)
    return found
  }

  api('GET /projects/:project/turns/:turn/transcript', async ({ params, query }) => {
    await turnOf(params)
    const { after = 0, before, limit } = query
    return before === undefined
      ? readTranscript(db, params.turn, after, limit)
      : readTranscriptBefore(db, params.turn, before, limit)
  })

  api('GET /projects/:project/turns/:turn/transcript/events', (request, reply) => serve(reply, () => streamOf(request)))

  async function streamOf({ params, query, headers }: RequestOf<Followed>): Promise<Stream> {
    let turn = await turnOf(params)
    const started = headers['last-event-id']
    let seq = typeof started === 'string' && /^\d{1,10}$/.test(started) ? Number(started) : (query.after ?? 0)
    const rings = await bell.follow(params.turn)
    const follower = await tail.follow().catch((error: unknown) => {
      rings.stop()
      throw error
    })
    let read = 0
    return {
      async next(signal) {
        read = rings.count()
        try {
          if (turn.ended_at === null) turn = (await readTurn(db, params.project, params.turn)) ?? turn
          const page = await readTranscript(db, params.turn, seq, pageMax)
          seq = page.entries.at(-1)?.seq ?? seq
          const events = page.entries.map((entry) => ({ id: String(entry.seq), event: 'entry', data: entry }))
          if (turn.ended_at === null || page.cursor !== null) return { events, more: page.cursor !== null }
          const { agent_turn_id, outcome, ended_at } = turn
          const end = { id: String(seq), event: 'end', data: { agent_turn_id, outcome, ended_at } }
          return { events: [...events, end], more: false, end: true }
        } catch (error) {
          if (!(error instanceof Retryable)) throw error
          await clock.sleep(retryMs, signal)
          return { events: [], more: true }
        }
      },
      async wait(signal) {
        await Promise.race([
          rings.after(read, signal),
          follower.ended(params.turn, signal),
          clock.sleep(pollMs, signal),
        ])
      },
      get position() {
        return String(seq)
      },
      close() {
        rings.stop()
        follower.stop()
      },
    }
  }

  api('GET /projects/:project/turns/:turn/transcript/text', async ({ params }, reply) => {
    await turnOf(params)
    const name = params.turn.replaceAll(/[^\w-]/g, '_').slice(0, 100)
    return reply
      .type('text/plain; charset=utf-8')
      .header('content-disposition', `attachment; filename="transcript-${name}.txt"`)
      .send(Readable.from(textOf(params.turn)))
  })

  async function* textOf(turn: string): AsyncGenerator<string> {
    const text = transcriptText()
    for (let after: number | null = 0; after !== null;) {
      const page = await readTranscript(db, turn, after, pageMax)
      yield block(text.add(page.entries))
      after = page.cursor
    }
    yield text.end()
  }

  api('POST /turns/:turn/transcript', async ({ params, body, grant }) => {
    const fence = await fenceOf(kernel, grant, params.turn, body)
    const session = body.session ?? Math.floor(parts.random.next() * 0x7fff_ffff)
    const entries = body.entries.flatMap(({ content, call_id: callId, ...entry }, at) =>
      splitContent(content).map((piece, part) => ({
        ...entry,
        callId,
        content: piece,
        continued: entry.continued === true || part > 0,
        number: (body.first + at) * piecesMax + part,
        ageMs: 0,
      })),
    )
    const [seq = 'stale'] = await kernel.appendTranscript(
      [{ ...fence, session, entries }],
      parts.workerSettings.transcriptMaxBytes,
    )
    if (seq === 'stale') throw stale()
    return { status: 'appended', seq }
  })
}
