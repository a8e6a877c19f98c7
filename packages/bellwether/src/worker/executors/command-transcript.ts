/**
 * Turns the output of a program into entries of the transcript while it runs. Lines of a coding agent's event stream become text, thoughts, and tool
 * calls with their arguments and results; every other line stays what the program printed. Pure except for `say`; memory is bounded.
 */
import { objectOf, textOrJson, type JsonObject } from '@bellwether/base'
import type { NewTranscriptEntry } from '../../kernel/verbs/content/append_transcript.js'
import type { FormatName } from './formats.js'
import { parseObject, textIn, type ParsedOutput } from './parsed-output.js'

export interface CommandTranscript {
  add(stream: 'stdout' | 'stderr', text: string): void
  /** The output has ended; `output` is what its format says about it. */
  end(output: ParsedOutput): void
}

type Say = (entry: NewTranscriptEntry) => void

// A longer line cannot be an event: it is stored as it is, in pieces.
const lineMaxChars = 1_048_576

export function commandTranscript(format: FormatName, say: Say): CommandTranscript {
  const read = events[format]
  let line = ''
  let printed: 'stdout' | 'stderr' | 'text' | undefined
  let last: string | undefined
  function print(kind: 'stdout' | 'stderr' | 'text', content: string): void {
    if (content === '') return
    say({ kind, content, continued: printed === kind })
    printed = kind
  }
  function event(text: string): void {
    const object = parseObject(text)
    const entries = object === undefined ? undefined : read?.(object)
    if (entries === undefined) return print('stdout', text)
    // Pieces of one message become one block.
    if (object!['delta'] === true) return entries.forEach(({ content }) => print('text', content))
    for (const entry of entries) say(entry)
    last = entries.at(-1)?.content ?? last
    if (entries.length > 0) printed = undefined
  }
  return {
    add(stream, text) {
      if (stream === 'stderr') return print('stderr', text)
      if (read === undefined) return print(format === 'aider' ? 'text' : 'stdout', text)
      line += text
      for (let at = line.indexOf('\n'); at !== -1; at = line.indexOf('\n')) {
        event(line.slice(0, at + 1))
        line = line.slice(at + 1)
      }
      if (line.length <= lineMaxChars) return
      print('stdout', line)
      line = ''
    },
    end({ failure }) {
      if (line !== '') event(line)
      line = ''
      // A program may have reported it in its last event.
      if (failure !== undefined && failure !== last) say({ kind: 'note', content: failure })
    },
  }
}

const entry = (kind: NewTranscriptEntry['kind'], content: string | undefined, callId?: unknown, name?: unknown) =>
  content === undefined ? [] : [{ kind, content, callId: textIn(callId), name: textIn(name) }]

/** A part of a message: a string, or objects with text. */
function partsText(content: unknown): string {
  if (!Array.isArray(content)) return textOrJson(content)
  return content.map((part) => textIn(objectOf(part)['text']) ?? textOrJson(part)).join('\n')
}

/** `claude -p --output-format stream-json`. */
function claude(event: JsonObject): NewTranscriptEntry[] {
  const parts = objectOf(event['message'])['content']
  const all = Array.isArray(parts) ? parts.map(objectOf) : []
  if (event['type'] === 'assistant')
    return all.flatMap((part) => {
      if (part['type'] === 'text') return entry('text', textIn(part['text']))
      if (part['type'] === 'thinking') return entry('thought', textIn(part['thinking']))
      if (part['type'] === 'tool_use') return entry('tool_call', textOrJson(part['input']), part['id'], part['name'])
      return []
    })
  if (event['type'] === 'user')
    return all.flatMap((part) =>
      part['type'] === 'tool_result'
        ? entry(
            'tool_result',
            partsText(part['content'] ?? ''),
            part['tool_use_id'],
            part['is_error'] === true ? 'error' : undefined,
          )
        : [],
    )
  if (event['type'] === 'system' && event['subtype'] === 'init')
    return entry('note', `claude ${textOrJson(event['model'])}, session ${textOrJson(event['session_id'])}`)
  if (event['type'] === 'system' && event['subtype'] === 'api_retry') return entry('note', claudeRetry(event))
  if (event['type'] === 'result') return entry('note', claudeDenials(event['permission_denials']))
  return []
}

// More calls than a person reads.
const denialsMax = 5
const callMaxChars = 200

/** Names the calls that claude was not allowed to make: it ends with success nevertheless. */
function claudeDenials(denials: unknown): string | undefined {
  const all = Array.isArray(denials) ? denials.map(objectOf) : []
  if (all.length === 0) return undefined
  const calls = all.slice(0, denialsMax).map(({ tool_name: tool, tool_input: input }) => {
    const { command, file_path: path } = objectOf(input)
    const what = textIn(command) ?? textIn(path)
    return `${textOrJson(tool)}${what === undefined ? '' : `(${what.slice(0, callMaxChars)})`}`
  })
  const more = all.length > denialsMax ? ` and ${all.length - denialsMax} more` : ''
  return `claude was not allowed to use ${calls.join(', ')}${more}. To allow calls in advance, add rules to "args" of the agent file: --allowedTools, 'Bash(npm test)'. With "approve: ask" a person decides.`
}

/** Says why nothing happens for a while: the program waits before it repeats a call of the model. */
function claudeRetry(event: JsonObject): string {
  const { attempt, max_retries: most, retry_delay_ms: delayMs } = event
  const status = typeof event['error_status'] === 'number' ? ` (${event['error_status']})` : ''
  const wait = typeof delayMs === 'number' ? ` in ${(delayMs / 1_000).toFixed(1)} s` : ''
  return `The model's API failed: ${textOrJson(event['error'])}${status}. claude calls it again${wait} (retry ${textOrJson(attempt)} of ${textOrJson(most)}).`
}

const codexSandbox = /^bwrap: (?:Creating new namespace failed|No permissions to create a? ?new namespace)/
const codexDenial =
  'codex runs no command here, because its own sandbox cannot start. Inside the sandbox of Bellwether, add --sandbox, workspace-write to "args" of the agent file. For a read-only agent, use "sandbox: none".'

/** `codex exec --json`. */
function codex(event: JsonObject): NewTranscriptEntry[] {
  const item = objectOf(event['item'])
  const { type, id } = { type: item['type'], id: item['id'] }
  const done = event['type'] === 'item.completed'
  if (event['type'] === 'thread.started') return entry('note', `codex, thread ${textOrJson(event['thread_id'])}`)
  if (type === 'agent_message' && done) return entry('text', textIn(item['text']))
  if (type === 'reasoning' && done) return entry('thought', textIn(item['text']))
  if (type === 'error' && done) return entry('note', textIn(item['message']))
  // Also before it repeats a call of the model.
  if (event['type'] === 'error') return entry('note', textIn(event['message']))
  const started = event['type'] === 'item.started'
  if (type === 'command_execution') {
    if (started) return entry('tool_call', textIn(item['command']), id, 'command')
    const { exit_code: code, status, aggregated_output: output } = item
    const exit =
      status === 'declined' ? '[not allowed]' : typeof code === 'number' && code !== 0 ? `[exit code ${code}]` : []
    if (!done) return []
    const denial = code === 0 || !codexSandbox.test(textIn(output) ?? '') ? undefined : codexDenial
    return [
      ...entry('tool_result', [textIn(output) ?? [], exit].flat().join('\n'), id, 'command'),
      ...entry('note', denial),
    ]
  }
  if (type === 'mcp_tool_call') {
    const name = `${textOrJson(item['server'])}.${textOrJson(item['tool'])}`
    if (started) return entry('tool_call', textOrJson(item['arguments'] ?? {}), id, name)
    return done ? entry('tool_result', textOrJson(item['error'] ?? item['result'] ?? ''), id, name) : []
  }
  if (type === 'file_change' && done)
    return [
      ...entry('tool_call', textOrJson(item['changes']), id, 'file_change'),
      ...(item['status'] === 'failed'
        ? entry('tool_result', 'not applied: it failed or was not allowed', id, 'error')
        : []),
    ]
  if (type === 'web_search' && done) return entry('tool_call', textIn(item['query']), id, 'web_search')
  return []
}

/** `opencode run --format json`: a tool call is reported when it has ended. */
function opencode(event: JsonObject): NewTranscriptEntry[] {
  const part = objectOf(event['part'])
  if (event['type'] === 'text') return entry('text', textIn(part['text']))
  if (event['type'] === 'reasoning') return entry('thought', textIn(part['text']))
  if (event['type'] !== 'tool_use') return []
  const state = objectOf(part['state'])
  const [id, name] = [part['callID'], part['tool']]
  return [
    ...entry('tool_call', textOrJson(state['input'] ?? {}), id, name),
    ...entry('tool_result', textOrJson(state['output'] ?? state['error'] ?? ''), id, name),
  ]
}

// Without a terminal it leaves out the tools that a person would have to confirm.
const geminiUnavailable = /^Tool "(?:run_shell_command|write_file|replace|web_fetch)" not found/
const geminiDenial =
  'gemini was not allowed to use this tool. To allow it, add a flag to "args" of the agent file: --approval-mode, auto_edit (files) or yolo (everything).'

/** `gemini --output-format stream-json`. Undefined: not an event, for example the object of `--output-format json`. */
function gemini(event: JsonObject): NewTranscriptEntry[] | undefined {
  const { tool_id: id, tool_name: name } = event
  switch (event['type']) {
    case 'init':
      return entry('note', `gemini ${textOrJson(event['model'])}, session ${textOrJson(event['session_id'])}`)
    case 'message':
      return event['role'] === 'assistant' ? entry('text', textIn(event['content'])) : []
    case 'tool_use':
      return entry('tool_call', textOrJson(event['parameters'] ?? {}), id, name)
    case 'tool_result': {
      const error = objectOf(event['error'])['message']
      const output = textOrJson(event['output'] ?? error ?? '')
      return [
        ...entry('tool_result', output, id, event['status'] === 'error' ? 'error' : undefined),
        ...entry('note', geminiUnavailable.test(output) ? geminiDenial : undefined),
      ]
    }
    case 'error':
      return entry('note', textIn(event['message']))
    case 'result':
      return []
    default:
      return undefined
  }
}

/** The formats whose stdout is a stream of events. */
const events: Readonly<Partial<Record<FormatName, (event: JsonObject) => NewTranscriptEntry[] | undefined>>> = {
  claude,
  codex,
  gemini,
  opencode,
}
