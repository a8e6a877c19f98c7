/** A guest in a process of its own, in the session and cgroup of its turn, as commands run. `end` kills every process of the turn. */
import { defined, environment, type Clock } from '@bellwether/base'
import { nodeArguments } from '@bellwether/base/thread'
import { keepTail } from '../../ports/processes/capture.js'
import { leaveCgroup, limitCgroupMemory, wasOutOfMemory } from '../../ports/processes/cgroup.js'
import { killTree } from '../../ports/processes/kill-tree.js'
import type { Exit } from '../../ports/processes/contain.js'
import { launch } from '../../ports/processes/run.js'
import { tokenName } from '../../ports/processes/token.js'
import type { Guest, GuestEnd } from './guest.js'
import type { FromGuest } from './messages.js'

export interface ProcessGuestOptions {
  readonly clock: Clock
  readonly token: string
  /** Part of the names of its files: turn and epoch. */
  readonly name: string
  readonly cwd: string
  readonly memoryMaxMb: number
}

export interface ProcessGuest extends Guest {
  readonly pid: number | undefined
  /** Processes of the turn that survived SIGKILL, after `end`: usually none. */
  readonly survivors: readonly number[]
}

const stderrMaxBytes = 16_384
const stderrMaxChars = 4_000
const drainMs = 2_000
// The code of Node, stacks, and buffers outside the JavaScript heap.
const overheadMb = 128

export function startProcessGuest({ clock, token, name, cwd, memoryMaxMb }: ProcessGuestOptions): ProcessGuest {
  const stderr = keepTail(stderrMaxBytes)
  let take: ((message: FromGuest) => void) | undefined
  let survivors: readonly number[] = []
  const child = launch({
    command: [
      process.execPath,
      `--max-old-space-size=${memoryMaxMb}`,
      ...nodeArguments('./guest-main', import.meta.url),
    ],
    cwd,
    env: { ...withoutSettings(), [tokenName]: token },
    stdin: '',
    token,
    name,
    onOutput(stream, chunk) {
      if (stream === 'stderr') stderr.add(chunk)
      const output = stream === 'stderr' ? process.stderr : process.stdout
      output.write(chunk)
    },
    onMessage: (message) => take?.(message as FromGuest),
  })
  limitCgroupMemory(token, (memoryMaxMb + overheadMb) * 1_048_576)

  async function endOf(exit: Exit): Promise<GuestEnd> {
    await child.drain(clock, drainMs)
    const isOutOfMemory = /heap out of memory/.test(stderr.text()) || wasOutOfMemory(token)
    if (exit.how === 'signalled' && isOutOfMemory) return { how: 'out_of_memory' }
    const how =
      exit.how === 'not_started'
        ? `could not be started: ${exit.message}`
        : exit.how === 'signalled'
          ? `was ended by ${exit.signal}, which Bellwether did not send`
          : `ended with exit code ${exit.code} before the function returned. Do not call process.exit`
    const tail = stderr.text().trim().slice(-stderrMaxChars)
    const text = `The process of the agent ${how}.${tail === '' ? '' : `\n\nThe end of its stderr:\n${tail}`}`
    return { how: 'exit', text }
  }

  return {
    pid: child.pid,
    get survivors() {
      return survivors
    },
    ended: child.exit.then(endOf),
    send: (message) => child.send(message),
    onMessage: (taker) => (take = taker),
    async end(graceMs) {
      survivors = await killTree({
        clock,
        graceMs,
        wanted: (other) => other === token,
        ...defined({ root: child.pid }),
      })
      leaveCgroup(token)
    },
  }
}

/** Our settings are left out: one of them is the database's URL, and the guest reaches the database through its worker. */
function withoutSettings(): Record<string, string> {
  const env = Object.entries(defined(environment()) as Record<string, string>)
  return Object.fromEntries(env.filter(([name]) => !name.startsWith('BELLWETHER__')))
}
