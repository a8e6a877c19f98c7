/** Agents for blocked.test.ts. `blocking` blocks the event loop without using the processor; both append a line per start. */
import { appendFileSync } from 'node:fs'

const started = (turn) => appendFileSync(process.env.STARTS, `${turn.turn.agentId}\n`)

export default {
  async blocking(turn) {
    started(turn)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(process.env.BLOCK_MS))
    return { deliver: { text: 'done' } }
  },
  async neighbour(turn) {
    started(turn)
    while (Date.now() < Number(process.env.NEIGHBOUR_UNTIL)) await new Promise((resolve) => setTimeout(resolve, 100))
    return { deliver: { text: 'done' } }
  },
}
