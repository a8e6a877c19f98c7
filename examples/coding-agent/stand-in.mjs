/**
 * Replaces a coding agent on a machine without an API key or a network: reads the prompt, fixes the one bug it knows, and
 * prints the same JSON lines as `claude -p --output-format stream-json`. If the prompt asks for a changelog, it claims a file
 * that it did not write, to show how the board handles a false claim.
 */
import { readFileSync, writeFileSync } from 'node:fs'

const prompt = readFileSync(0, 'utf8')
const print = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
const answer = (text) =>
  print({ type: 'result', subtype: 'success', is_error: false, result: text, total_cost_usd: 0.0123, usage })
const usage = { input_tokens: 2100, output_tokens: 180 }

print({ type: 'system', subtype: 'init', cwd: process.cwd() })
if (/changelog/i.test(prompt)) {
  answer('I wrote the changelog.\n{"summary":"Wrote the changelog.","files":["CHANGELOG.md"]}')
} else {
  const wrong = readFileSync('total.mjs', 'utf8')
  print({ type: 'assistant', message: { content: [{ type: 'text', text: 'The loop overwrites the sum.' }], usage } })
  writeFileSync('total.mjs', wrong.replace('cents = price', 'cents += price'))
  answer('The loop kept only the last line; it adds now.\n{"summary":"Add every line.","files":["total.mjs"]}')
}
