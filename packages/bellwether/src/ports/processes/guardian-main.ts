/**
 * The guardian's process. Its worker sends commands on stdin, one per line; the end of stdin means that the worker has ended. It
 * ignores signals to the worker's group and exits when the worker has ended and no process of its turns is left.
 */
import { Socket } from 'node:net'
import { systemClock } from '@bellwether/base'
import { splitLines } from './capture.js'
import { openGuard, type GuardCommand } from './guard.js'
import { systemMachine } from '../disk/machine.js'

const lineMaxBytes = 65_536
const over = new AbortController()

function send(message: object): void {
  process.stdout.write(`${JSON.stringify(message)}\n`)
}

const guard = openGuard({
  clock: systemClock,
  nowMs: () => systemMachine.uptimeMs(),
  onFrozen: (token) => send({ frozen: token }),
  onExpired: (token) => send({ expired: token }),
})

for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, () => undefined)
// EPIPE after the worker has ended; the end of stdin reports that.
process.stdout.on('error', () => undefined)

const lines = splitLines(lineMaxBytes, (line) => {
  const { seq, ...command } = JSON.parse(line) as GuardCommand & { readonly seq: number }
  guard.apply(command)
  send({ done: seq })
})
process.stdin.on('data', (chunk: Buffer) => lines.add(chunk))

// Renewals from another thread of the worker, without responses. A line that was written in part has no effect.
const renewals = splitLines(lineMaxBytes, (line) => {
  try {
    guard.apply(JSON.parse(line) as GuardCommand)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
})
new Socket({ fd: 3, readable: true, writable: false })
  .on('data', (chunk: Buffer) => renewals.add(chunk))
  .on('error', () => undefined) // the end of stdin reports the end of the worker
  .unref()

async function exit(): Promise<void> {
  over.abort()
  await guard.killAll()
  process.exit(0)
}
for (const event of ['end', 'close', 'error'])
  process.stdin.once(event, () => {
    if (!over.signal.aborted) void exit()
  })

void guard.run(over.signal)
