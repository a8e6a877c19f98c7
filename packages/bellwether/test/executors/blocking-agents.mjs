/** Agents for blocked.test.ts. `blocking` blocks the event loop without using the processor, until its time is over or a file exists; both append a line per start. */
import { appendFileSync, existsSync } from 'node:fs'

const started = (turn) => appendFileSync(process.env.STARTS, `${turn.turn.agentId}\n`)

export default {
  async blocking(turn) {
    started(turn)
    const untilMs = Date.now() + Number(process.env.BLOCK_MS)
    const never = new Int32Array(new SharedArrayBuffer(4))
    while (Date.now() < untilMs && !existsSync(`${process.env.STARTS}.unblock`)) Atomics.wait(never, 0, 0, 100)
    return { deliver: { text: 'done' } }
  },
  async neighbour(turn) {
    started(turn)
    while (Date.now() < Number(process.env.NEIGHBOUR_UNTIL)) await new Promise((resolve) => setTimeout(resolve, 100))
    return { deliver: { text: 'done' } }
  },
}
