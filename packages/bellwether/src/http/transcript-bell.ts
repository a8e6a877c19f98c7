/**
 * Wakes the readers of transcripts when a worker has appended to their turn. It listens to the bell only while there are readers. A ring may
 * be lost, so a reader also polls; it reads the entries from the database itself.
 */
import { onAbort } from '@bellwether/base'
import { subjects } from '@bellwether/protocol'
import type { Bell, Listening, Ring } from '../ports/bell/bell.js'

export interface TranscriptBell {
  /** Starts to listen for one turn. Resolves when rings arrive. */
  follow(agentTurnId: string): Promise<TranscriptRings>
}

export interface TranscriptRings {
  /** The number of rings so far: a ring between a read and the following wait is not lost. */
  count(): number
  /** Resolves when the count differs from `count`, or when the signal aborts. */
  after(count: number, signal: AbortSignal): Promise<void>
  stop(): void
}

interface Reader {
  rings: number
  wake: () => void
}

export function openTranscriptBell(bell: Pick<Bell, 'listen'>): TranscriptBell {
  const readers = new Map<string, Set<Reader>>()
  let listening: Promise<Listening> | undefined

  function onRing(ring: Ring | undefined): void {
    const ids = ring?.payload['agent_turn_ids']
    const turns = Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : [...readers.keys()]
    for (const turn of turns)
      for (const reader of readers.get(turn) ?? []) {
        reader.rings += 1
        reader.wake()
      }
  }

  function leave(agentTurnId: string, reader: Reader): void {
    const others = readers.get(agentTurnId)
    others?.delete(reader)
    if (others?.size === 0) readers.delete(agentTurnId)
    if (readers.size > 0 || listening === undefined) return
    // A failed listen has no subscription to stop; its error reached the reader that started it.
    void listening.then(
      (one) => one.stop(),
      () => undefined,
    )
    listening = undefined
  }

  return {
    async follow(agentTurnId) {
      const reader: Reader = { rings: 0, wake: () => undefined }
      const ofTurn = readers.get(agentTurnId) ?? new Set()
      readers.set(agentTurnId, ofTurn.add(reader))
      try {
        await (listening ??= bell.listen(subjects.anyTranscript, onRing))
      } catch (error) {
        leave(agentTurnId, reader)
        throw error
      }
      return {
        count: () => reader.rings,
        after: (count, signal) =>
          new Promise((resolve) => {
            if (reader.rings !== count || signal.aborted) return resolve()
            const settle = () => {
              release()
              reader.wake = () => undefined
              resolve()
            }
            const release = onAbort(signal, settle)
            reader.wake = settle
          }),
        stop: () => leave(agentTurnId, reader),
      }
    },
  }
}
