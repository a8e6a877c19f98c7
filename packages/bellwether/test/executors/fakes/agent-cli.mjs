/**
 * Looks like a coding agent's command line, by the name it is given first: checks the flags that make it non-interactive, reads
 * its prompt from stdin, and prints what the real one prints. `FAKE=fail` in the prompt makes it fail the way the real one does.
 */
import { readFileSync } from 'node:fs'

const [, , name, ...flags] = process.argv
const needed = {
  claude: ['-p', '--output-format', 'stream-json', '--verbose'],
  codex: ['exec', '--json', '-'],
  gemini: ['--output-format', 'json'],
  aider: ['--yes-always', '--message-file', '/dev/stdin'],
  opencode: ['run', '--format', 'json'],
}[name]
for (const flag of needed) {
  if (!flags.includes(flag)) {
    process.stderr.write(`${name}: this is interactive without ${flag}\n`)
    process.exit(64)
  }
}
const prompt = readFileSync(name === 'aider' ? '/dev/stdin' : 0, 'utf8')
const failing = prompt.includes('FAKE=fail')
const model = flags[flags.indexOf('--model') + 1]
const answer = `${name} read ${prompt.length} characters as ${flags.includes('--model') ? model : 'itself'}`
const print = (...events) => process.stdout.write(events.map((event) => `${JSON.stringify(event)}\n`).join(''))

const acts = {
  claude() {
    const usage = { input_tokens: 10, cache_read_input_tokens: 90, output_tokens: 20 }
    print(
      { type: 'system', subtype: 'init', session_id: 's', tools: [] },
      {
        type: 'assistant',
        message: { id: 'm1', content: [{ type: 'text', text: 'hm' }], usage: { input_tokens: 3, output_tokens: 1 } },
      },
      failing
        ? { type: 'result', subtype: 'error_during_execution', is_error: true, result: 'the model is away', usage }
        : {
            type: 'result',
            subtype: 'success',
            is_error: false,
            result: answer,
            total_cost_usd: 0.25,
            usage,
            num_turns: 1,
          },
    )
    return failing ? 1 : 0
  },
  codex() {
    print(
      { type: 'thread.started', thread_id: 't' },
      { type: 'turn.started' },
      { type: 'item.completed', item: { id: 'i0', type: 'reasoning', text: 'hm' } },
      { type: 'item.completed', item: { id: 'i1', type: 'agent_message', text: answer } },
      failing
        ? { type: 'turn.failed', error: { message: 'the model is away' } }
        : { type: 'turn.completed', usage: { input_tokens: 100, cached_input_tokens: 90, output_tokens: 20 } },
    )
    return failing ? 1 : 0
  },
  gemini() {
    const tokens = { prompt: 100, candidates: 15, total: 120, cached: 90, thoughts: 5, tool: 0 }
    const stats = { models: { 'gemini-pro': { api: { totalRequests: 1 }, tokens } }, tools: {}, files: {} }
    const whole = failing
      ? { error: { type: 'ApiError', message: 'the model is away', code: 1 } }
      : { response: answer, stats }
    process.stdout.write(`${JSON.stringify(whole, null, 2)}\n`)
    return failing ? 1 : 0
  },
  aider() {
    process.stdout.write(`Aider v0.86\nModel: gpt\n\n${answer}\n\n`)
    if (failing) process.stderr.write('litellm: the model is away\n')
    else process.stdout.write('Tokens: 0.1k sent, 12 cache hit, 20 received. Cost: $0.05 message, $0.25 session.\n')
    return failing ? 1 : 0
  },
  opencode() {
    const part = (type, more) => ({
      type,
      timestamp: 1,
      sessionID: 's',
      part: { type: type.replace('_', '-'), ...more },
    })
    print(
      part('step_start', {}),
      part('text', { text: 'Let me look.' }),
      part('tool_use', { tool: 'read' }),
      part('step_finish', {
        reason: 'tool-calls',
        cost: 0.1,
        tokens: { input: 4, output: 5, reasoning: 5, cache: { read: 46, write: 0 } },
      }),
      part('text', { text: answer }),
      failing
        ? {
            type: 'error',
            timestamp: 1,
            sessionID: 's',
            error: { name: 'APIError', data: { message: 'the model is away' } },
          }
        : part('step_finish', {
            reason: 'stop',
            cost: 0.15,
            tokens: { input: 4, output: 10, reasoning: 0, cache: { read: 46, write: 0 } },
          }),
    )
    return 0
  },
}
process.exitCode = acts[name]()
