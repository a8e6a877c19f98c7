/**
 * Writes the transcripts of a worker's turns (T9.2): collects entries and stores those of all turns in one statement, off the turns' path. Adding
 * never waits, never throws and uses bounded memory: text that does not fit is dropped from the oldest end and counted. A turn without
 * entries costs nothing.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Kernel } from '../kernel/kernel.js'
import { splitContent, type NewTranscriptEntry, type NumberedEntry } from '../kernel/verbs/content/append_transcript.js'
import { turnKey, type Fence } from '../kernel/verdict.js'

export interface TranscriptWriter {
  /** Adds an entry. Text of the same kind that follows in one stream is joined if the entry says `continued`. */
  add(turn: Fence, entry: NewTranscriptEntry): void
  /** Resolves when everything that was added for the turn is stored, or cannot be stored any more. Undefined if nothing waits. */
  flush(turn: Fence): Promise<void> | undefined
  /** Stores the rest, once. */
  close(): Promise<void>
}

export interface TranscriptWriterOptions {
  readonly kernel: Pick<Kernel, 'appendTranscript'>
  readonly clock: Clock
  readonly log: Log
  readonly random: Pick<Random, 'next'>
  readonly maxBytes: number
}

// How long an entry waits for others: live to a person, and at most five statements per second and worker.
const waitMs = 200
// While the database is unavailable.
const retryMs = 1_000
// Per statement. A turn that prints without end stores at most 1.3 MB per second and takes no room from the others.
const turnMaxChars = 262_144
// 32 MB at two bytes per character; beyond it the writing turn loses its oldest entries.
const bufferMaxChars = 16_777_216
// One statement stores this much: about 20 ms of PostgreSQL.
const batchMaxChars = 1_048_576
const entryChars = 64
const joinedMaxChars = 16_384

interface Pending extends Omit<NumberedEntry, 'number' | 'ageMs' | 'content'> {
  content: string
  readonly addedMs: number
  number: number
}

interface TurnEntries {
  readonly fence: Fence
  readonly session: number
  entries: Pending[]
  chars: number
  leftOutBytes: number
  next: number
  /** The fence is lost: what is added is dropped. */
  stale: boolean
  readonly flushed: (() => void)[]
}

export function openTranscriptWriter(options: TranscriptWriterOptions): TranscriptWriter {
  const { kernel, clock, log, random, maxBytes } = options
  const turns = new Map<string, TurnEntries>()
  let chars = 0
  let running: Promise<void> | undefined
  let hurry = new AbortController()
  const closing = new AbortController()

  function entriesOf(turn: Fence): TurnEntries {
    const key = turnKey(turn)
    let known = turns.get(key)
    if (known === undefined) {
      const { projectId, agentId, agentTurnId, turnEpoch } = turn
      const session = Math.floor(random.next() * 0x7fff_ffff)
      const fence = { projectId, agentId, agentTurnId, turnEpoch }
      known = { fence, session, entries: [], chars: 0, leftOutBytes: 0, next: 1, stale: false, flushed: [] }
      turns.set(key, known)
    }
    return known
  }

  function push(turn: TurnEntries, entry: NewTranscriptEntry): void {
    const last = turn.entries.at(-1)
    const follows = entry.continued === true && last?.kind === entry.kind && last.callId === entry.callId
    // A joined entry stays small enough to be dropped by itself.
    const joins = follows && last.content.length < joinedMaxChars
    if (joins) last.content += entry.content
    else turn.entries.push({ ...entry, addedMs: clock.monotonicMs(), number: 0 })
    count(turn, entry.content.length + (joins ? 0 : entryChars))
    while (turn.entries.length > 1 && (turn.chars > turnMaxChars || chars > bufferMaxChars)) {
      const dropped = turn.entries.shift()!
      turn.leftOutBytes += Buffer.byteLength(dropped.content)
      count(turn, -(dropped.content.length + entryChars))
    }
  }

  function count(turn: TurnEntries, by: number): void {
    turn.chars += by
    chars += by
  }

  /** Takes what fits into one statement. Numbers are given here, because entries that were dropped before have none. */
  function take(): { readonly turn: TurnEntries; readonly entries: Pending[] }[] {
    const batch: { turn: TurnEntries; entries: Pending[] }[] = []
    let taken = 0
    for (const turn of turns.values()) {
      if (turn.entries.length === 0) continue
      if (taken >= batchMaxChars) break
      const entries: Pending[] = []
      while (turn.entries.length > 0 && taken < batchMaxChars) {
        const entry = turn.entries.shift()!
        taken += entry.content.length + entryChars
        count(turn, -(entry.content.length + entryChars))
        for (const [at, content] of splitContent(entry.content).entries()) {
          const leftOutBytes = turn.leftOutBytes
          turn.leftOutBytes = 0
          const piece = { ...entry, content, continued: entry.continued === true || at > 0, number: turn.next++ }
          entries.push(leftOutBytes > 0 ? { ...piece, leftOutBytes } : piece)
        }
      }
      batch.push({ turn, entries })
    }
    return batch
  }

  async function store(batch: ReturnType<typeof take>): Promise<void> {
    for (;;) {
      const nowMs = clock.monotonicMs()
      const items = batch.map(({ turn, entries }) => ({
        ...turn.fence,
        session: turn.session,
        entries: entries.map((entry) => ({ ...entry, ageMs: nowMs - entry.addedMs })),
      }))
      try {
        const results = await kernel.appendTranscript(items, maxBytes)
        for (const [at, { turn }] of batch.entries()) if (results[at] === 'stale') turn.stale = true
        return
      } catch (error) {
        // The numbers of the entries make the repetition harmless.
        if (!(error instanceof Retryable) || closing.signal.aborted) {
          log.warn({ err: error, turns: batch.length }, 'transcript entries lost')
          return
        }
        await clock.sleep(retryMs, closing.signal)
      }
    }
  }

  async function run(): Promise<void> {
    for (;;) {
      await clock.sleep(waitMs, hurry.signal)
      if (hurry.signal.aborted && !closing.signal.aborted) hurry = new AbortController()
      const batch = take()
      if (batch.length > 0) await store(batch)
      for (const [key, turn] of turns) {
        if (turn.stale) {
          count(turn, -turn.chars)
          turn.entries = []
        }
        if (turn.entries.length > 0) continue
        for (const resolve of turn.flushed.splice(0)) resolve()
        // Its next entry starts a new session.
        if (!turn.stale) turns.delete(key)
      }
      if ([...turns.values()].every(({ entries }) => entries.length === 0)) break
    }
    forgetStale()
    running = undefined
  }

  // Worker and agent stop soon after the fence is lost.
  const staleMax = 1_000
  function forgetStale(): void {
    for (const key of turns.keys()) {
      if (turns.size <= staleMax) break
      turns.delete(key)
    }
  }

  return {
    add(turn, entry) {
      if (closing.signal.aborted || (entry.content === '' && entry.continued === true)) return
      const entries = entriesOf(turn)
      if (entries.stale) return
      push(entries, entry)
      running ??= run()
    },
    flush(turn) {
      const entries = turns.get(turnKey(turn))
      if (entries === undefined || entries.stale) return undefined
      hurry.abort()
      return new Promise<void>((resolve) => entries.flushed.push(resolve))
    },
    async close() {
      closing.abort()
      hurry.abort()
      await running
    },
  }
}
