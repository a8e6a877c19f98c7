import { expect, it } from 'vitest'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { NewTranscriptEntry } from '../kernel/verbs/content/append_transcript.js'
import { turnTranscript } from './turn-transcript.js'

it('an entry that has no JSON form becomes a note: an agent may say anything, and saying never throws', () => {
  const entries: NewTranscriptEntry[] = []
  const turn = { agentTurnId: 't', takenOver: false } as ClaimedTurn
  const transcript = turnTranscript(
    { add: (_turn, entry) => void entries.push(entry) },
    { db: undefined as never },
    turn,
  )
  const circle: Record<string, unknown> = {}
  circle['circle'] = circle
  for (const entry of [null, { kind: 'text', content: 1n }, { kind: 'text', content: circle }, { kind: 7, content: 5 }])
    transcript.say(entry as never)
  expect(entries.map(({ kind, content }) => [kind, content])).toEqual([
    ...Array.from({ length: 3 }, () => ['note', expect.stringContaining('cannot be stored')]),
    ['note', '5'],
  ])
})
