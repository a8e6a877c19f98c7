/**
 * Agents for blocked.test.ts, each of which appends a line per start. `blocking` blocks the event loop without using the processor,
 * until its time is over or a file exists; its neighbours run until it is done.
 */
import { appendFileSync, existsSync, writeFileSync } from 'node:fs'

const { STARTS, BLOCK_MS, QUICK } = process.env
const done = `${STARTS}.done`

const started = (turn) => appendFileSync(STARTS, `${turn.turn.agentId}\n`)

async function neighbour(turn) {
  started(turn)
  while (QUICK === undefined && !existsSync(done)) await new Promise((resolve) => setTimeout(resolve, 100))
  return { deliver: { text: 'done' } }
}

export default {
  async blocking(turn) {
    started(turn)
    const untilMs = Date.now() + Number(BLOCK_MS)
    const never = new Int32Array(new SharedArrayBuffer(4))
    while (Date.now() < untilMs && !existsSync(`${STARTS}.unblock`)) Atomics.wait(never, 0, 0, 100)
    writeFileSync(done, '')
    return { deliver: { text: 'done' } }
  },
  neighbour,
  threaded: { isolation: 'thread', run: neighbour },
}
