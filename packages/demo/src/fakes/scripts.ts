/**
 * The scripts of the fake models. Each answer depends on the conversation only, so that a worker that takes a turn over gets
 * the same answer again; delays are random.
 */
import type { Random } from '@bellwether/base'
import { actors, laps, spenderTokens, tools } from '../actors.js'
import type { Answer } from './stream.js'

/** The part of a conversation that scripts read. */
export interface Conversation {
  /** Number of answers the model has given. */
  readonly answers: number
  /** The latest tool result. */
  readonly result: string
  /** The first message of the user: the task. */
  readonly task: string
}

type Script = (conversation: Conversation, random: Random) => Answer

const between = (random: Random, fromMs: number, toMs: number) => fromMs + random.next() * (toMs - fromMs)
const sheets = 12
const lapMs = 400
const shownChars = 120

export const scripts: Readonly<Record<string, Script>> = {
  writer: (_conversation, random) => ({
    text: 'The town slept. The presses started at four.',
    afterMs: between(random, 150, 900),
  }),

  researcher: ({ answers }) =>
    answers === 0
      ? { calls: ['who', 'when'].map((question) => ({ name: tools.lookUp, args: { question } })) }
      : { text: 'Both questions are answered: it was the mayor, on Sunday.' },

  columnist: (conversation) => saveThenClaim(conversation, 'A column about the bridge, and why it is late.', 80),

  spender: (conversation) => saveThenClaim(conversation, 'An expensive opinion.', spenderTokens / 2),

  lead({ answers, result }) {
    if (answers === 0) return fork(sheets)
    if (answers === 1)
      return { calls: [{ name: 'delegate', args: { agent: actors.proofReader, instruction: 'Read the front page.' } }] }
    if (answers === 2) {
      const question = 'The evening edition is folded and proof-read; one sheet is missing. Shall it go to print?'
      return { calls: [{ name: 'ask_person', args: { question, choices: ['yes', 'no'], deadline_seconds: 60 } }] }
    }
    return { text: `The editor answered: ${result.slice(0, shownChars)}` }
  },

  forker: ({ answers }) => (answers === 0 ? fork(4) : { text: 'Four sheets are folded.' }),

  'proof-reader': () => ({ text: 'Two commas are missing.', afterMs: 300 }),

  weatherman: (conversation) =>
    callThenReport(conversation, tools.barometer, { place: 'harbour' }, 'No reading, so: changeable.'),

  'pigeon-keeper': (conversation) =>
    callThenReport(conversation, tools.pigeonPost, { to: 'Reuter' }, 'Nothing was sent twice.'),

  marathon: ({ answers }) =>
    answers < laps
      ? { calls: [{ name: tools.lap, args: { lap: String(answers + 1) } }], afterMs: lapMs }
      : { text: `${laps} laps.` },

  juggler: ({ answers }, random) =>
    answers < 2
      ? { calls: [{ name: tools.juggle, args: { ball: String(answers + 1) } }], afterMs: between(random, 50, 400) }
      : { text: 'Every ball came down.' },
}

/** One child per sheet. */
function fork(count: number): Answer {
  const tasks = Array.from({ length: count }, (_, at) => ({
    agent: actors.sheetFolder,
    target_strategy: 'new',
    instruction: `Fold sheet ${at + 1} now.`,
  }))
  return { calls: [{ name: 'fork_join', args: { tasks } }] }
}

function saveThenClaim({ answers, task }: Conversation, text: string, tokens: number): Answer {
  // The message lists earlier work first and the task last.
  const path = task.match(/columns\/[a-z0-9-]+\.md/g)?.at(-1) ?? 'columns/untitled.md'
  if (answers === 0) return { calls: [{ name: tools.save, args: { path, text } }], tokens, afterMs: 300 }
  return { text: JSON.stringify({ summary: 'written', files: [path] }), tokens }
}

function callThenReport(
  { answers, result }: Conversation,
  name: string,
  args: Record<string, string>,
  then: string,
): Answer {
  if (answers === 0) return { calls: [{ name, args }] }
  return { text: `${/"code":"(\w+)"/.exec(result)?.[1] ?? 'answered'}: ${then}` }
}
