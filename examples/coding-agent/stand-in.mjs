/**
 * Replaces a coding agent on a machine without an API key or a network: `stand-in.mjs NAME FLAGS…` takes the flags of claude, codex,
 * gemini, aider or opencode, reads the prompt from stdin, and prints what that program prints, with the token counts of a real task:
 * 32,000 in the first message and 209,000 in all, mostly cache reads. It keeps sessions as that program does (sessions.mjs), and a resumed
 * session continues after its last call of the model. It knows the tutorial's bug and changelog, and does what lines of the prompt that
 * begin with `stand-in:` say (plan.mjs). Bellwether's tests use it, too.
 */
import { appendFileSync, writeFileSync } from 'node:fs'
import { claudeProgram, noResult } from './claude.mjs'
import { calls, costOf, unattended } from './facts.mjs'
import { openInput } from './input.mjs'
import { killAt, ordersIn, pauseAt, plan } from './plan.mjs'
import { isSandboxed, listSessions, openSession } from './sessions.mjs'

const [, , name, ...flags] = process.argv
const value = (flag) => (flags.includes(flag) ? flags[flags.indexOf(flag) + 1] : undefined)
const print = (...events) => write(events.map((event) => `${JSON.stringify(event)}\n`).join(''))
let prints = 0
let orders = ''
/** Every print is a point at which a test can kill the worker. */
function write(text) {
  process.stdout.write(text)
  killAt((prints += 1), orders)
}

// Without these flags the programs refuse to write files when no person can confirm it. Claude: claude.mjs.
const mayWrite = {
  codex: () =>
    // Its own sandbox cannot start inside Bellwether's.
    (value('--sandbox') === 'workspace-write' && !isSandboxed(name)) ||
    value('--sandbox') === 'danger-full-access' ||
    flags.includes('--dangerously-bypass-approvals-and-sandbox'),
  gemini: () => flags.includes('--yolo') || ['auto_edit', 'yolo'].includes(value('--approval-mode')),
  aider: () => true,
  opencode: () => true,
}

const kinds = ['input', 'written', 'read', 'output']
/** The calls of this process, and those since the last result. */
const madeBefore = []
const made = []
const sumOf = (all) => Object.fromEntries(kinds.map((kind) => [kind, all.reduce((sum, usage) => sum + usage[kind], 0)]))
const usageOf = (all) => sumOf(all.map((call) => calls[call]))
const total = () => usageOf(made)

const answerOf = ({ answer, report, heard = [] }) => {
  const text = [answer, ...heard.map((one) => `Heard: ${one}`)].join('\n')
  return report === undefined ? text : `${text}\n${JSON.stringify(report)}`
}
/** Writes the files. Returns false if the flags do not allow it. */
function writeFiles(writes) {
  if (writes.length > 0 && !mayWrite[name]()) return false
  for (const [path, text] of writes) writeFileSync(path, text)
  return true
}

/** Each program's output for a plan; returns its exit code. `call` is true if the model is called now, not in an earlier process. */
const programs = {
  claude: claudeProgram({ flags, value, print, answerOf, total, all: () => usageOf([...madeBefore, ...made]) }),
  async codex(work, { id, call, spent }) {
    const item = (type, id, fields) => ({ type, item: { id: `item_${id}`, ...fields } })
    const command = { type: 'command_execution', command: "bash -lc 'git status --short'", aggregated_output: '' }
    print({ type: 'thread.started', thread_id: id }, { type: 'turn.started' })
    if (await call(0)) print(item('item.completed', 0, { type: 'reasoning', text: `**${work.think}**` }))
    if (await call(1))
      print(
        item('item.started', 1, { ...command, exit_code: null, status: 'in_progress' }),
        item('item.completed', 1, { ...command, exit_code: 0, status: 'completed' }),
      )
    if (work.exit !== undefined) return work.exit
    await call(2)
    const allowed = writeFiles(work.writes)
    const changes = work.writes.map(([path]) => ({ path, kind: 'add' }))
    if (changes.length > 0)
      print(item('item.completed', 2, { type: 'file_change', changes, status: allowed ? 'completed' : 'failed' }))
    if (work.fails) {
      print({ type: 'error', message: work.failure }, { type: 'turn.failed', error: { message: work.failure } })
      return 1
    }
    for (const at of [3, 4, 5]) await call(at)
    const text = allowed ? answerOf(work) : 'The sandbox is read-only, so I changed nothing.'
    // All of the session, with earlier runs.
    const { input, written, read, output } = spent()
    print(item('item.completed', 3, { type: 'agent_message', text }), {
      type: 'turn.completed',
      usage: {
        input_tokens: input + written + read,
        cached_input_tokens: read,
        cache_write_input_tokens: written,
        output_tokens: output,
        reasoning_output_tokens: 300,
      },
    })
    return 0
  },
  async gemini(work, { id, call, prompt }) {
    const event = (type, fields) => ({ type, timestamp: new Date().toISOString(), ...fields })
    const say = (content) => event('message', { role: 'assistant', content, delta: true })
    const use = (id, tool_name, parameters) =>
      event('tool_use', { tool_name, tool_id: `${tool_name}-${id}`, parameters })
    const returned = (id, tool_name, fields) => event('tool_result', { tool_id: `${tool_name}-${id}`, ...fields })
    print(
      event('init', { session_id: id, model: value('--model') ?? 'gemini-2.5-pro' }),
      event('message', { role: 'user', content: prompt }),
    )
    // The model's text arrives in pieces.
    if (await call(0)) print(...work.think.split(/(?<= )/).map(say))
    if (await call(1))
      print(
        use(0, 'read_file', { file_path: 'total.mjs' }),
        returned(0, 'read_file', { status: 'success', output: '' }),
      )
    if (work.exit !== undefined) return work.exit
    await call(2)
    const allowed = writeFiles(work.writes)
    for (const [at, [path, text]] of work.writes.entries())
      print(
        use(at + 1, 'write_file', { file_path: path, content: text }),
        returned(
          at + 1,
          'write_file',
          allowed
            ? { status: 'success', output: `Successfully overwrote file: ${path}` }
            : { status: 'error', error: { type: 'tool_not_registered', message: 'Tool "write_file" not found' } },
        ),
      )
    if (!work.fails) for (const at of [3, 4, 5]) await call(at)
    const { input, written, read, output } = total()
    const sent = input + written + read
    // Thoughts are part of the total only.
    const tokens = {
      total_tokens: sent + output,
      input_tokens: sent,
      output_tokens: output - 300,
      cached: read,
      input: sent - read,
    }
    const stats = {
      ...tokens,
      duration_ms: 41_200,
      tool_calls: 1 + work.writes.length,
      models: { 'gemini-2.5-pro': tokens },
    }
    if (work.fails) {
      print(
        event('result', {
          status: 'error',
          error: { type: 'unknown', message: `[API Error: ${work.failure}]` },
          stats,
        }),
      )
      // The HTTP status, of which an exit code keeps eight bits: 429, or 500.
      return work.limited ? 173 : 244
    }
    print(
      say(allowed ? answerOf(work) : 'I cannot write files without approval.'),
      event('result', { status: 'success', stats }),
    )
    return 0
  },
  async aider(work, { call }) {
    const thousands = (count) =>
      count < 1_000 ? `${count}` : count < 10_000 ? `${(count / 1_000).toFixed(1)}k` : `${Math.round(count / 1_000)}k`
    const say = (line) => write(`${line}\n`)
    say(
      'Aider v0.86.1\nMain model: sonnet with diff edit format\nGit repo: .git with 3 files\nRepo-map: using 4096 tokens\n',
    )
    if (work.exit !== undefined) return work.exit
    if (work.fails) {
      // After the last retry it gives up, with exit code 0.
      say(`litellm.InternalServerError: AnthropicException - ${work.failure}`)
      say('The API provider is down or overloaded.\nRetrying in 0.2 seconds...')
      say(`litellm.InternalServerError: AnthropicException - ${work.failure}`)
      return 0
    }
    let session = 0
    for (const [at, one] of calls.entries()) {
      if (!(await call(at))) continue
      if (at === calls.length - 1) writeFiles(work.writes)
      session += costOf(one)
      const cached = `${thousands(one.written)} cache write, ${thousands(one.read)} cache hit`
      const sent = thousands(one.input + one.written + one.read)
      say(at === 0 ? work.think : at < calls.length - 1 ? 'Looking at the files.' : answerOf(work))
      say(`\nTokens: ${sent} sent, ${cached}, ${thousands(one.output)} received.`)
      say(`Cost: $${costOf(one).toFixed(2)} message, $${session.toFixed(2)} session.`)
    }
    for (const [path] of work.writes) say(`Applied edit to ${path}`)
    if (work.writes.length > 0)
      if (!flags.includes('--no-auto-commits'))
        say('Commit 4f5c1d2 fix: do the task\nYou can use /undo to undo and discard each aider commit.')
    return 0
  },
  async opencode(work, { id: sessionID, call }) {
    const event = (type, part) => ({
      type,
      timestamp: Date.now(),
      sessionID,
      part: { id: `prt_${type}`, sessionID, messageID: 'msg_1', type: type.replace('_', '-'), ...part },
    })
    const step = (at, reason) =>
      event('step_finish', {
        reason,
        cost: costOf(calls[at]),
        tokens: {
          input: calls[at].input,
          output: calls[at].output,
          reasoning: 0,
          cache: { read: calls[at].read, write: calls[at].written },
        },
      })
    print(event('step_start', {}))
    for (const at of [0, 1, 2, 3, 4]) {
      if (!(await call(at))) continue
      if (at === 0) print(event('text', { text: work.think }))
      if (work.exit !== undefined) return work.exit
      if (at === 2) writeFiles(work.writes)
      const state = { status: 'completed', input: { filePath: 'total.mjs' }, output: '', title: 'total.mjs' }
      print(event('tool_use', { type: 'tool', callID: `call_${at}`, tool: 'read', state }), step(at, 'tool-calls'))
      print(event('step_start', {}))
    }
    if (work.fails) {
      print({
        type: 'error',
        timestamp: Date.now(),
        sessionID,
        error: { name: 'APIError', data: { message: work.failure } },
      })
      return 1
    }
    await call(5)
    print(event('text', { text: answerOf(work) }), step(5, 'stop'))
    return 0
  },
}

/** One prompt of the session, from its first call of the model to its result. */
async function answer(session, input, prompt) {
  session.prompt(prompt)
  // Each result has its own usage, and the cost of the process.
  madeBefore.push(...made.splice(0))
  const open = session.open.map(({ text }) => text).join('\n')
  const work = { ...plan(name, open, session, value('--model')), heard: [] }
  await pauseAt('session', open)
  orders = open
  killAt(prints, orders)
  async function hear(ids) {
    for (const message of input.take()) {
      const isNew = session.prompt(message)
      if (isNew) {
        work.heard.push(message.text)
        for (const [order, path] of ordersIn(message.text))
          if (order === 'write') work.writes.push([path, `${path}, by ${name}\n`])
      }
      if (flags.includes('--replay-user-messages'))
        print({ ...message.event, ...ids, uuid: message.uuid, parent_tool_use_id: null, isReplay: true })
    }
  }
  async function call(at) {
    if (work.limited || session.calls.has(at) || work.calls?.includes(at) === false) return false
    await pauseAt(at, open)
    session.call(at, calls[at])
    made.push(at)
    return true
  }
  const exit = await programs[name](work, {
    id: session.id,
    call,
    hear,
    prompt: prompt.text,
    spent: () => sumOf(session.spent),
  })
  if (work.exit === undefined && !work.fails && !work.turnsUp) session.end()
  if (work.exit !== undefined) input.close()
  return exit
}

async function main() {
  if (name === 'opencode' && flags.slice(0, 2).join(' ') === 'session list') {
    print(listSessions(name))
    return 0
  }
  const missing = unattended[name].filter((flag) => !flags.includes(flag))
  if (missing.length > 0) {
    process.stderr.write(`${name}: this is interactive without ${missing.join(' ')}\n`)
    return 64
  }
  if (name === 'gemini' && process.env.GEMINI_CLI_TRUST_WORKSPACE !== 'true' && !flags.includes('--skip-trust')) {
    process.stderr.write('Gemini CLI is not running in a trusted directory. To proceed, either use `--skip-trust`, …\n')
    return 55
  }
  if (name === 'aider' && !flags.includes('--no-gitignore')) appendFileSync('.gitignore', '.aider*\n')
  const input = await openInput(value('--input-format') === 'stream-json')
  await pauseAt('start', input.first.text)
  const session = openSession(name, flags)
  if ('fails' in session) {
    process.stderr.write(`${session.fails}\n`)
    if (name === 'claude' && session.printed) print(noResult(session))
    return session.exit
  }
  let exit = await answer(session, input, input.first)
  // A message that arrives after the result is the next prompt.
  for (let next = await input.next(); next !== undefined; next = await input.next())
    exit = await answer(session, input, next)
  return exit
}

process.exitCode = await main()
