/** `npm run bench -- turns [--json] [--quick]`: progress on stderr, one JSON object on stdout with --json, else a short table. */
import { parseArgs } from 'node:util'
import { benchTurns } from './turns.js'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false }, quick: { type: 'boolean', default: false } },
})
if (positionals.length !== 1 || positionals[0] !== 'turns') {
  process.stderr.write('usage: npm run bench -- turns [--json] [--quick]\n')
  process.exit(2)
}
const report = await benchTurns({ quick: values.quick, onProgress: (line) => void process.stderr.write(`${line}\n`) })
if (values.json) process.stdout.write(`${JSON.stringify(report)}\n`)
else process.stdout.write(`${JSON.stringify(report, undefined, 2)}\n`)
