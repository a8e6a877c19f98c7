/**
 * What one run of a turn adds to its transcript: entries of the agent, the tool calls with which it suspends, and their results. A takeover is noted
 * before the first entry of the new worker, and results that an earlier worker has written are not written again.
 */
import { errorMessage, textOrJson } from '@bellwether/base'
import { transcriptKinds } from '@bellwether/protocol'
import type { ToolResult } from '@bellwether/protocol/http'
import type { Kernel } from '../kernel/kernel.js'
import { askPerson } from '../kernel/pmo-tools.js'
import { readTranscriptResults } from '../kernel/reads/transcript.js'
import type { NewTranscriptEntry } from '../kernel/verbs/content/append_transcript.js'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { ToolCall } from '../kernel/verbs/turn/suspend.js'
import type { TranscriptWriter } from './transcript.js'

export interface TurnTranscript {
  say(entry: NewTranscriptEntry | string): void
  calls(calls: readonly ToolCall[]): void
  results(results: readonly ToolResult[]): Promise<void>
}

/** Of a worker that stores no transcripts. */
const silent: TurnTranscript = { say: () => undefined, calls: () => undefined, results: () => Promise.resolve() }

export function turnTranscript(
  stored: Pick<TranscriptWriter, 'add'> | undefined,
  { db }: Pick<Kernel, 'db'>,
  turn: ClaimedTurn,
): TurnTranscript {
  if (stored === undefined) return silent
  const writer = stored
  let first = true
  function say(entry: NewTranscriptEntry | string): void {
    if (first && turn.takenOver) writer.add(turn, { kind: 'note', content: 'Another worker continues this turn.' })
    const isFirst = first
    first = false
    const checked = checkedEntry(entry)
    writer.add(turn, isFirst ? { ...checked, continued: false } : checked)
  }
  return {
    say,
    calls(calls) {
      for (const { toolCallId, toolName, args } of calls)
        say({
          kind: toolName === askPerson ? 'question' : 'tool_call',
          callId: toolCallId,
          name: toolName,
          content: textOrJson(args ?? {}),
        })
    },
    async results(results) {
      if (results.length === 0) return
      const written = turn.takenOver ? await readTranscriptResults(db, turn.agentTurnId) : new Set<string>()
      for (const { tool_call_id: callId, tool_name: name, status, result, error } of results) {
        if (written.has(callId)) continue
        const content = textOrJson(status === 'success' ? result : { status, ...error, result: result ?? undefined })
        say({ kind: name === askPerson ? 'answer' : 'tool_result', callId, name, content })
      }
    },
  }
}

/** An agent in JavaScript may pass anything; one invalid entry would make the database refuse the entries of all turns. */
function checkedEntry(entry: NewTranscriptEntry | string): NewTranscriptEntry {
  if (typeof entry === 'string') return { kind: 'text', content: entry }
  try {
    const { kind, content, callId, name, continued } = entry
    return {
      kind: transcriptKinds.includes(kind) ? kind : 'note',
      content: textOrJson(content),
      continued: continued === true,
      ...(callId === undefined ? {} : { callId: textOrJson(callId) }),
      ...(name === undefined ? {} : { name: textOrJson(name) }),
    }
  } catch (error) {
    return { kind: 'note', content: `The agent wrote an entry that cannot be stored: ${errorMessage(error)}` }
  }
}
