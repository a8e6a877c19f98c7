/** Agents for isolation.test.ts. */
import { execFileSync } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { getHeapStatistics } from 'node:v8'
import { parentPort } from 'node:worker_threads'

const fileOf = (turn) => turn.turn.payload.file

export default {
  /** Uses every kind of call, waits for a tool, and delivers its result. */
  async tool(turn) {
    const { context, output } = await turn.hydrate()
    const [result] = turn.results
    if (result !== undefined)
      return { deliver: { text: `${context[0].content.text}: ${result.result.sum}; ${output[0].content.text}` } }
    await turn.activity('executing_tool', 'adding')
    const reservationId = turn.newId()
    const { what } = await turn.reserve({ reservationId, tokens: 5 })
    const { left } = await turn.commit({ reservationId, tokens: 3 })
    const step = { stepId: turn.newId(), phase: 'think', status: 'success' }
    const text = `${what}, ${left.tokens} left`
    await turn.record({ cards: [{ type: 'agent.thought', content: { text } }], step })
    return { suspend: { calls: [{ toolCallId: turn.newId(), toolName: 'add', args: {} }], stepId: step.stepId } }
  },
  /** Waits for two messages and delivers them. */
  async listener(turn) {
    const heard = []
    appendFileSync(fileOf(turn), '.')
    while (heard.length < 2) heard.push(...(await turn.messages()))
    return { deliver: { text: heard.map(({ seq, sender, text }) => `${seq} ${sender}: ${text}`).join('; ') } }
  },
  async twice(turn) {
    const file = fileOf(turn)
    appendFileSync(file, `${turn.turn.turnEpoch}\n`)
    if (turn.turn.turnEpoch === 1) for (;;) appendFileSync(file, '.')
    return { deliver: { text: 'done' } }
  },
  /** Stops when its signal aborts. */
  polite: (turn) =>
    new Promise((resolve) => {
      turn.signal.addEventListener('abort', () => {
        appendFileSync(fileOf(turn), `aborted: ${turn.signal.reason}`)
        resolve({ deliver: { text: 'stopped' } })
      })
      appendFileSync(fileOf(turn), '.')
    }),
  async endless(turn) {
    for (;;) appendFileSync(fileOf(turn), '.')
  },
  async memory() {
    for (const all = []; ;) all.push(Array.from({ length: 1_000 }, Math.random))
  },
  async limit() {
    return { deliver: { text: String(getHeapStatistics().heap_size_limit) } }
  },
  /** Leaves a process without an environment in a session of its own, whose parent has ended; it writes its pid. */
  async hides(turn) {
    const script = 'setsid sh -c "echo \\$\\$ > $0; exec sleep 1000" & until [ -s $0 ]; do sleep 0.01; done'
    execFileSync('/bin/sh', ['-c', script, fileOf(turn)], { env: {}, stdio: 'ignore' })
    if (turn.turn.payload.exits) process.exit(3)
    return { deliver: { text: 'left' } }
  },
  /** Sends values that a worker does not know, as programs do that tell their parent that they are ready. */
  async chatters() {
    const send = parentPort === null ? (value) => process.send(value) : (value) => parentPort.postMessage(value, [])
    const calls = [
      { call: -1, verb: 'constructor', args: null },
      { call: -2, verb: 'record', args: null },
    ]
    const says = [{ say: 5 }, { say: null }, { say: { kind: 7, content: {} } }]
    for (const value of [null, 'ready', 7, [], { type: 'ready' }, ...calls, ...says]) send(value)
    return { deliver: { text: 'ready' } }
  },
  async fails() {
    const message = { failed: null }
    if (parentPort === null) process.send(message)
    else parentPort.postMessage(message, [])
    await new Promise((resolve) => setTimeout(resolve, 60_000))
  },
  async exits() {
    process.exit(3)
  },
  async segfaults() {
    process.kill(process.pid, 'SIGSEGV')
    await new Promise((resolve) => setTimeout(resolve, 60_000))
  },
  rejects: () =>
    new Promise(() => {
      setTimeout(() => void Promise.reject(new Error('rejected without a handler')), 1)
    }),
  async unclonable() {
    return { deliver: { text: () => 'a function' } }
  },
}
