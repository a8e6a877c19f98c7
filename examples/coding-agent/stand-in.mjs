/**
 * Stands in for a coding agent where there is no key and no network: reads the prompt, mends the one mistake that it knows,
 * and tells of it in the words that `claude -p --output-format stream-json` uses. Asked for a changelog it claims a file that it never
 * wrote, so that one can see what becomes of such a claim.
 */
import { readFileSync, writeFileSync } from 'node:fs'

const prompt = readFileSync(0, 'utf8')
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
const answer = (text) =>
  say({ type: 'result', subtype: 'success', is_error: false, result: text, total_cost_usd: 0.0123, usage })
const usage = { input_tokens: 2100, output_tokens: 180 }

say({ type: 'system', subtype: 'init', cwd: process.cwd() })
if (/changelog/i.test(prompt)) {
  answer('I wrote the changelog.\n{"summary":"Wrote the changelog.","files":["CHANGELOG.md"]}')
} else {
  const wrong = readFileSync('total.mjs', 'utf8')
  say({
    type: 'assistant',
    message: { content: [{ type: 'text', text: 'The loop forgets what came before.' }], usage },
  })
  writeFileSync('total.mjs', wrong.replace('cents = price', 'cents += price'))
  answer('The loop kept only the last line; it adds now.\n{"summary":"Add every line.","files":["total.mjs"]}')
}
