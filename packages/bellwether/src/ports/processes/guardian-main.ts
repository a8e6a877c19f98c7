/**
 * The guardian's process. It is told by its worker, a line at a time on stdin, what to watch; the end of stdin is the worker's
 * death, of whatever kind. Always: signals meant for the worker's group do not end it; it goes when its worker has gone and
 * nothing of its worker's turns is left.
 */
import { systemClock } from '@bellwether/base'
import { splitLines } from './capture.js'
import { openGuard, type GuardCommand } from './guard.js'
import { systemMachine } from '../disk/machine.js'

const lineMaxBytes = 65_536
const over = new AbortController()

function say(fact: object): void {
  process.stdout.write(`${JSON.stringify(fact)}\n`)
}

const guard = openGuard({
  clock: systemClock,
  nowMs: systemMachine.uptimeMs,
  onExpired: (token) => say({ expired: token }),
})

for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, () => undefined)
// A worker that is gone reads nothing more; its end of stdin is what tells.
process.stdout.on('error', () => undefined)

const lines = splitLines(lineMaxBytes, (line) => {
  const { seq, ...order } = JSON.parse(line) as GuardCommand & { readonly seq: number }
  guard.apply(order)
  say({ done: seq })
})
process.stdin.on('data', (chunk: Buffer) => lines.add(chunk))

async function leave(): Promise<void> {
  over.abort()
  await guard.killAll()
  process.exit(0)
}
for (const event of ['end', 'close', 'error'])
  process.stdin.once(event, () => {
    if (!over.signal.aborted) void leave()
  })

void guard.run(over.signal)
