/**
 * What the scripted models say. Each is a function of the conversation and of nothing else, so that a worker that takes a turn over
 * hears the same line again; only how long a thought takes is left to chance.
 */
import type { Random } from '@bellwether/base'
import { laps, spenderTokens, tools, cast } from '../cast.js'
import type { Line } from './speech.js'

/** The conversation, as far as a script looks at it. */
export interface Talk {
  /** How many answers the model has given in it. */
  readonly said: number
  /** The newest result of a tool, as it was told. */
  readonly result: string
  /** The first words of the user: the task. */
  readonly task: string
}

type Script = (talk: Talk, random: Random) => Line

const between = (random: Random, fromMs: number, toMs: number) => fromMs + random.next() * (toMs - fromMs)
const sheets = 12
const lapMs = 400
const shownChars = 120

export const scripts: Readonly<Record<string, Script>> = {
  writer: (_talk, random) => ({
    text: 'The town slept. Nobody heard the presses start.',
    afterMs: between(random, 150, 900),
  }),

  researcher: ({ said }) =>
    said === 0
      ? { calls: ['who', 'when'].map((question) => ({ name: tools.lookUp, args: { question } })) }
      : { text: 'Both questions are answered: it was the mayor, on Sunday.' },

  columnist: (talk) => savedThenClaimed(talk, 'A column about the bridge, and why it is late.', 80),

  spender: (talk) => savedThenClaimed(talk, 'An expensive opinion.', spenderTokens / 2),

  lead({ said, result }) {
    if (said === 0) return folding(sheets)
    if (said === 1)
      return { calls: [{ name: 'delegate', args: { agent: cast.proofReader, instruction: 'Read the front page.' } }] }
    if (said === 2) {
      const question = 'The evening edition is folded and read; one sheet is missing. Shall it go to print?'
      return { calls: [{ name: 'ask_person', args: { question, choices: ['yes', 'no'], deadline_seconds: 60 } }] }
    }
    return { text: `The editor says: ${result.slice(0, shownChars)}` }
  },

  forker: ({ said }) => (said === 0 ? folding(4) : { text: 'Four sheets are folded.' }),

  'proof-reader': () => ({ text: 'Two commas are missing.', afterMs: 300 }),

  weatherman: (talk) => calledThenTold(talk, tools.barometer, { place: 'harbour' }, 'No reading, so: changeable.'),

  'pigeon-keeper': (talk) => calledThenTold(talk, tools.pigeonPost, { to: 'Reuter' }, 'Nothing was sent twice.'),

  marathon: ({ said }) =>
    said < laps
      ? { calls: [{ name: tools.lap, args: { lap: String(said + 1) } }], afterMs: lapMs }
      : { text: `${laps} laps.` },

  juggler: ({ said }, random) =>
    said < 2
      ? { calls: [{ name: tools.juggle, args: { ball: String(said + 1) } }], afterMs: between(random, 50, 400) }
      : { text: 'Every ball came down.' },
}

/** One child a sheet. */
function folding(count: number): Line {
  const tasks = Array.from({ length: count }, (_, at) => ({
    agent: cast.hand,
    target_strategy: 'new',
    instruction: `Fold sheet ${at + 1} now.`,
  }))
  return { calls: [{ name: 'fork_join', args: { tasks } }] }
}

function savedThenClaimed({ said, task }: Talk, text: string, tokens: number): Line {
  // The task is the newest thing in its message; what was done earlier stands before it.
  const path = task.match(/columns\/[a-z0-9-]+\.md/g)?.at(-1) ?? 'columns/untitled.md'
  if (said === 0) return { calls: [{ name: tools.save, args: { path, text } }], tokens, afterMs: 300 }
  return { text: JSON.stringify({ summary: 'written', files: [path] }), tokens }
}

function calledThenTold({ said, result }: Talk, name: string, args: Record<string, string>, then: string): Line {
  if (said === 0) return { calls: [{ name, args }] }
  return { text: `${/"code":"(\w+)"/.exec(result)?.[1] ?? 'answered'}: ${then}` }
}
