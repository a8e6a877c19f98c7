/** The event stream of claude, as version 2.1.197 prints it with an API key. Fields without a reader are left out. */
import { randomUUID } from 'node:crypto'
import { calls, costOf } from './facts.mjs'
import { permission, useTool } from './permission.mjs'

const apiUsage = ({ input, written, read, output }) => ({
  input_tokens: input,
  cache_creation_input_tokens: written,
  cache_read_input_tokens: read,
  output_tokens: output,
  service_tier: 'standard',
})
const nothing = apiUsage({ input: 0, written: 0, read: 0, output: 0 })

/** What it prints if it cannot resume a session. */
export const noResult = ({ wanted, fails }) => ({
  type: 'result',
  subtype: 'error_during_execution',
  duration_ms: 0,
  duration_api_ms: 0,
  is_error: true,
  num_turns: 0,
  stop_reason: null,
  session_id: wanted,
  total_cost_usd: 0,
  usage: nothing,
  modelUsage: {},
  permission_denials: [],
  uuid: randomUUID(),
  errors: [fails],
})

/** `total`: what the calls since the last result used; `all`: the calls of this process. */
export const claudeProgram = ({ flags, value, print, answerOf, total, all }) =>
  async function claude(work, { id, call, hear }) {
    const session = () => ({ session_id: id, uuid: randomUUID() })
    const model = value('--model') ?? 'claude-sonnet-5'
    const assistant = (message, more = {}) => ({
      type: 'assistant',
      message: { type: 'message', role: 'assistant', ...message, context_management: null },
      parent_tool_use_id: null,
      ...session(),
      ...more,
    })
    // An event has the usage at the start of its message: the output is not yet counted.
    const message = (call, content) =>
      assistant({
        id: `msg_${call}`,
        model,
        content: [content],
        stop_reason: null,
        usage: apiUsage({ ...calls[call], output: 1 }),
      })
    /** What it says itself, for example because the API refused a call. */
    const synthetic = (text, error) =>
      assistant(
        {
          id: randomUUID(),
          model: '<synthetic>',
          content: [{ type: 'text', text }],
          stop_reason: 'stop_sequence',
          usage: nothing,
        },
        { error },
      )
    const result = (id, content, isError) => ({
      type: 'user',
      message: {
        role: 'user',
        content: [
          {
            tool_use_id: id,
            type: 'tool_result',
            content: content === '' ? '(Bash completed with no output)' : content,
            ...(isError === undefined ? {} : { is_error: isError }),
          },
        ],
      },
      parent_tool_use_id: null,
      ...session(),
      timestamp: new Date().toISOString(),
    })
    const use = (call, tool, input) => message(call, { type: 'tool_use', id: `toolu_${call}`, name: tool, input })
    print({
      type: 'system',
      subtype: 'init',
      cwd: process.cwd(),
      tools: ['Agent', 'Bash', 'Edit', 'Glob', 'Grep', 'Read', 'Write'],
      mcp_servers: [],
      model,
      permissionMode: value('--permission-mode') ?? 'default',
      apiKeySource: process.env.ANTHROPIC_API_KEY === undefined ? 'none' : 'ANTHROPIC_API_KEY',
      claude_code_version: '2.1.197',
      ...session(),
    })
    await hear(session())
    if (work.limited)
      print({
        type: 'rate_limit_event',
        rate_limit_info: { status: 'rejected', ...work.limited, isUsingOverage: false },
        ...session(),
      })
    if (await call(0))
      print(
        message(0, { type: 'thinking', thinking: 'What has changed so far?', signature: 'c2ln' }),
        message(0, { type: 'text', text: work.think }),
        use(0, 'Bash', { command: 'git status --short', description: 'Show what has changed' }),
        result('toolu_0', '', false),
      )
    if (await call(1))
      print(use(1, 'Grep', { pattern: 'price', output_mode: 'content' }), result('toolu_1', 'No matches found'))
    if (work.exit !== undefined) {
      process.stderr.write('Error: the session was lost\n')
      return work.exit
    }
    await call(2)
    await hear(session())
    const denials = []
    const wanted = [
      ...work.writes.map(([path, text]) => ['Write', { file_path: path, content: text }]),
      ...(work.runs ?? []).map((command) => ['Bash', { command }]),
    ]
    for (const [at, [tool, input]] of wanted.entries()) {
      const tool_use_id = `toolu_${2 + at}`
      print(message(2, { type: 'tool_use', id: tool_use_id, name: tool, input }))
      const { behavior, updatedInput, message: why } = await permission({ flags, value }, tool, input, tool_use_id)
      if (behavior === 'allow') print(result(tool_use_id, useTool(tool, updatedInput)))
      else {
        denials.push({ tool_name: tool, tool_use_id, tool_input: input })
        print(result(tool_use_id, why, true))
      }
    }
    for (const at of [3, 4])
      if (await call(at)) print(use(at, 'Bash', { command: 'git diff --stat' }), result(`toolu_${at}`, '', false))
    await call(5)
    await hear(session())
    const used = all()
    const ending = {
      type: 'result',
      is_error: work.fails === true || work.turnsUp,
      duration_ms: 41_200,
      duration_api_ms: 39_800,
      num_turns: calls.length,
      stop_reason: 'end_turn',
      session_id: id,
      total_cost_usd: costOf(used),
      usage: apiUsage(total()),
      modelUsage:
        used.input === 0
          ? {}
          : {
              [model]: {
                inputTokens: used.input,
                outputTokens: used.output,
                cacheReadInputTokens: used.read,
                cacheCreationInputTokens: used.written,
                costUSD: costOf(used),
                contextWindow: 200_000,
              },
            },
      permission_denials: denials,
      uuid: randomUUID(),
    }
    if (work.turnsUp) {
      const errors = [`Reached maximum number of turns (${calls.length})`]
      print({ ...ending, subtype: 'error_max_turns', stop_reason: 'tool_use', terminal_reason: 'max_turns', errors })
      return 1
    }
    // It reports an API error as a success with is_error.
    const text = work.fails
      ? work.failure
      : denials.length === 0
        ? answerOf(work)
        : 'I need your permission to write the file.'
    print(
      work.fails ? synthetic(text, work.limited ? 'rate_limit' : 'server_error') : message(5, { type: 'text', text }),
    )
    const api_error_status = work.fails ? (work.limited ? 429 : 529) : null
    print({ ...ending, subtype: 'success', api_error_status, result: text, terminal_reason: 'completed' })
    return work.fails ? 1 : 0
  }
