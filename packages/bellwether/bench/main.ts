/**
 * `npm run bench -- NAME [--json] [--quick]` (history also takes --turns N and --agents N): prints progress on stderr and one JSON object on stdout
 * (one line with --json).
 */
import { parseArgs } from 'node:util'
import { benchBells } from './bells.js'
import { benchBoard } from './board.js'
import { benchHistory } from './long-history.js'
import { benchSandbox } from './sandbox.js'
import { benchTranscript } from './transcript.js'
import { benchTurns } from './turns.js'
import { benchUp } from './up.js'
import { benchView } from './view.js'

const benches = {
  turns: benchTurns,
  view: benchView,
  board: benchBoard,
  bells: benchBells,
  history: benchHistory,
  up: benchUp,
  transcript: benchTranscript,
  sandbox: benchSandbox,
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    turns: { type: 'string' },
    agents: { type: 'string' },
  },
})
const name = positionals[0] as keyof typeof benches
if (positionals.length !== 1 || !Object.hasOwn(benches, name)) {
  process.stderr.write(`usage: npm run bench -- ${Object.keys(benches).join('|')} [--json] [--quick]\n`)
  process.exit(2)
}
const wholeNumber = (text: string | undefined) => (text === undefined ? undefined : Number.parseInt(text, 10))
const report = await benches[name]({
  quick: values.quick,
  turns: wholeNumber(values.turns),
  agents: wholeNumber(values.agents),
  onProgress: (line) => void process.stderr.write(`${line}\n`),
})
if (values.json) process.stdout.write(`${JSON.stringify(report)}\n`)
else process.stdout.write(`${JSON.stringify(report, undefined, 2)}\n`)
