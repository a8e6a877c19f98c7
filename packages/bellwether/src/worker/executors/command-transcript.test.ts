import { describe, expect, it } from 'vitest'
import type { NewTranscriptEntry } from '../../kernel/verbs/content/append_transcript.js'
import { commandTranscript } from './command-transcript.js'
import type { FormatName } from './formats.js'

function entriesOf(format: FormatName, lines: readonly (object | string)[]): (string | undefined)[][] {
  const entries: NewTranscriptEntry[] = []
  const transcript = commandTranscript(format, (entry) => void entries.push(entry))
  const text = lines.map((line) => (typeof line === 'string' ? line : `${JSON.stringify(line)}\n`)).join('')
  // Pieces that end inside lines.
  for (let at = 0; at < text.length; at += 7) transcript.add('stdout', text.slice(at, at + 7))
  transcript.add('stderr', 'careful')
  transcript.end({})
  return entries.map(({ kind, content, callId, name }) => [kind, content, callId, name])
}

describe('the transcript of a coding agent', () => {
  it('[T9.2] the transcript of a coding agent has the text, thoughts and tool calls of claude, and other lines as they are', () => {
    const message = (type: string, ...content: object[]) => ({ type, message: { content } })
    expect(
      entriesOf('claude', [
        { type: 'system', subtype: 'init', model: 'm', session_id: 's' },
        {
          ...{ type: 'system', subtype: 'api_retry', attempt: 1, max_retries: 10, retry_delay_ms: 507.08 },
          ...{ error_status: 529, error: 'overloaded' },
        },
        message('assistant', { type: 'thinking', thinking: 'hm' }, { type: 'text', text: 'Let me look.' }),
        message('assistant', { type: 'tool_use', id: 't1', name: 'Bash', input: { command: 'ls' } }),
        message('user', { type: 'tool_result', tool_use_id: 't1', content: [{ type: 'text', text: 'a.txt' }] }),
        'plain line\n',
        { type: 'result', subtype: 'success', result: 'done' },
      ]),
    ).toEqual([
      ['note', 'claude m, session s', undefined, undefined],
      [
        'note',
        "The model's API failed: overloaded (529). claude calls it again in 0.5 s (retry 1 of 10).",
        undefined,
        undefined,
      ],
      ['thought', 'hm', undefined, undefined],
      ['text', 'Let me look.', undefined, undefined],
      ['tool_call', '{"command":"ls"}', 't1', 'Bash'],
      ['tool_result', 'a.txt', 't1', undefined],
      ['stdout', 'plain line\n', undefined, undefined],
      ['stderr', 'careful', undefined, undefined],
    ])
  })

  it('[T9.2] the transcript of a coding agent has the tool calls of gemini, and the pieces of a message as one text', () => {
    const say = (content: string) => ({ type: 'message', role: 'assistant', content, delta: true })
    const entries: NewTranscriptEntry[] = []
    const transcript = commandTranscript('gemini', (entry) => void entries.push(entry))
    const events = [
      { type: 'init', session_id: 's', model: 'm' },
      { type: 'message', role: 'user', content: 'the prompt' },
      say('Let me '),
      say('look.'),
      { type: 'tool_use', tool_id: 't1', tool_name: 'read_file', parameters: { path: 'a' } },
      { type: 'tool_result', tool_id: 't1', status: 'error', error: { type: 'x', message: 'no such file' } },
      { type: 'tool_result', tool_id: 't2', status: 'error', output: 'Tool "write_file" not found. Did you …' },
      say('Gone.'),
      { type: 'result', status: 'success', stats: {} },
    ]
    for (const event of events) transcript.add('stdout', `${JSON.stringify(event)}\n`)
    transcript.end({})
    expect(entries.map(({ kind, content, name, continued }) => [kind, content, name ?? continued])).toEqual([
      ['note', 'gemini m, session s', undefined],
      ['text', 'Let me ', false],
      ['text', 'look.', true],
      ['tool_call', '{"path":"a"}', 'read_file'],
      ['tool_result', 'no such file', 'error'],
      ['tool_result', 'Tool "write_file" not found. Did you …', 'error'],
      ['note', expect.stringContaining('--approval-mode'), undefined],
      ['text', 'Gone.', false],
    ])
  })

  it('[T9.2] the transcript of a coding agent has the commands and messages of codex', () => {
    const item = { id: 'i1', type: 'command_execution', command: 'make' }
    expect(
      entriesOf('codex', [
        { type: 'item.started', item },
        { type: 'item.completed', item: { ...item, aggregated_output: 'ok', exit_code: 2 } },
        { type: 'item.completed', item: { ...item, aggregated_output: '', status: 'declined' } },
        {
          ...{ type: 'item.completed' },
          item: { ...item, aggregated_output: 'bwrap: Creating new namespace failed: nesting depth', exit_code: 1 },
        },
        { type: 'item.completed', item: { id: 'i2', type: 'file_change', changes: [], status: 'failed' } },
        { type: 'error', message: 'Reconnecting... 1/5' },
        { type: 'item.completed', item: { type: 'reasoning', text: 'why' } },
        { type: 'item.completed', item: { type: 'agent_message', text: 'done' } },
      ]),
    ).toEqual([
      ['tool_call', 'make', 'i1', 'command'],
      ['tool_result', 'ok\n[exit code 2]', 'i1', 'command'],
      ['tool_result', '[not allowed]', 'i1', 'command'],
      ['tool_result', 'bwrap: Creating new namespace failed: nesting depth\n[exit code 1]', 'i1', 'command'],
      ['note', expect.stringContaining('its own sandbox cannot start'), undefined, undefined],
      ['tool_call', '[]', 'i2', 'file_change'],
      ['tool_result', 'not applied: it failed or was not allowed', 'i2', 'error'],
      ['note', 'Reconnecting... 1/5', undefined, undefined],
      ['thought', 'why', undefined, undefined],
      ['text', 'done', undefined, undefined],
      ['stderr', 'careful', undefined, undefined],
    ])
  })

  it('[T9.2] the transcript of a coding agent names the calls that claude was not allowed to make, and how to allow them', () => {
    const call = (tool_name: string, tool_input: object) => ({ tool_name, tool_use_id: 't', tool_input })
    const denials = [
      call('Bash', { command: 'npm test' }),
      call('Write', { file_path: 'a.txt', content: 'x' }),
      ...[1, 2, 3, 4].map(() => call('WebFetch', { url: 'x' })),
    ]
    const [[kind, note]] = entriesOf('claude', [{ type: 'result', result: 'no', permission_denials: denials }]) as [
      [string, string],
    ]
    expect([kind, note]).toEqual(['note', expect.stringContaining('--allowedTools')])
    expect(note).toContain(
      'not allowed to use Bash(npm test), Write(a.txt), WebFetch, WebFetch, WebFetch and 1 more. To allow',
    )
    for (const permission_denials of [[], undefined, 'x'])
      expect(entriesOf('claude', [{ type: 'result', result: 'no', permission_denials }])).toHaveLength(1)
  })

  it('the transcript of a coding agent says once why its program failed', () => {
    const notes: string[] = []
    const transcript = commandTranscript('codex', ({ content }) => void notes.push(content))
    const message = 'unexpected status 401 Unauthorized'
    for (const event of [
      { type: 'error', message },
      { type: 'turn.failed', error: { message } },
    ])
      transcript.add('stdout', `${JSON.stringify(event)}\n`)
    transcript.end({ failure: message })
    expect(notes).toEqual([message])
  })

  it('[T9.2] the transcript of a coding agent has the tool calls of opencode with their results', () => {
    const state = { status: 'completed', input: { path: 'a' }, output: 'text' }
    expect(
      entriesOf('opencode', [
        { type: 'tool_use', part: { tool: 'read', callID: 'c', state } },
        { type: 'text', part: { text: 'done' } },
      ]),
    ).toEqual([
      ['tool_call', '{"path":"a"}', 'c', 'read'],
      ['tool_result', 'text', 'c', 'read'],
      ['text', 'done', undefined, undefined],
      ['stderr', 'careful', undefined, undefined],
    ])
  })
})
