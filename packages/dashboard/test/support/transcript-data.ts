/** The transcript of the fixture's turns: every kind of entry, a takeover, and a part that was left out. */
import type { TranscriptEntry } from '../../src/api/types.js'
import type { At, Say } from './strings.js'

export const entryOf = (more: Partial<TranscriptEntry> & Pick<TranscriptEntry, 'seq'>): TranscriptEntry => ({
  turn_epoch: 3,
  created_at: '2029-01-01T00:00:00.000Z',
  kind: 'text',
  continued: false,
  call_id: null,
  name: null,
  content: '',
  left_out: null,
  ...more,
})

export function transcriptOf(at: At, say: Say): TranscriptEntry[] {
  const question = { to: 'alice', question: say('May I change the timeout of the test?'), choices: ['yes', 'no'] }
  const written: Omit<Partial<TranscriptEntry>, 'seq'>[] = [
    { content: say('I will look at the login test first.') },
    { kind: 'thought', content: say('The test waits for a fixed time, which is too short on a busy machine.') },
    { kind: 'tool_call', call_id: 'x1', name: say('grep_files'), content: '{"pattern":"setTimeout","path":"src"}' },
    { kind: 'tool_result', call_id: 'x1', name: say('grep_files'), content: say('src/login.test.ts:14: setTimeout') },
    { kind: 'truncated', content: '', left_out: { entries: 1_200, bytes: 482_000 } },
    { kind: 'stdout', name: 'npm test', content: 'PASS src/cart.test.ts\n' },
    { kind: 'stdout', continued: true, content: say('PASS src/login.test.ts\n') },
    { kind: 'stderr', name: 'npm test', content: say('warning: 1 test is slow\n') },
    { kind: 'note', content: 'Another worker took over the turn.', turn_epoch: 4 },
    { kind: 'question', name: 'ask_person', content: JSON.stringify(question), turn_epoch: 4 },
    { kind: 'answer', name: 'ask_person', content: say('Yes, for this test only.'), turn_epoch: 4 },
    { kind: 'tool_call', call_id: 'x2', name: 'edit_file', content: '{"path":"src/login.test.ts"}', turn_epoch: 4 },
    { content: say('The test passes now. Details: https://example.org/pr/12'), turn_epoch: 4 },
  ]
  return written.map((more, number) =>
    entryOf({ seq: number + 1, created_at: at(-48 + number / written.length), ...more }),
  )
}
