/**
 * Runs a command from launch until none of its processes is left. Whatever ends it (itself, a cancellation, its budget, its
 * guardian), every process of the turn is killed before `runCommand` resolves. Memory is bounded, however much the command prints.
 */
import { StringDecoder } from 'node:string_decoder'
import { defined, onAbort, type Clock } from '@bellwether/base'
import { budgetExceeded } from '@bellwether/protocol'
import { keepTail, splitLines } from '../../ports/processes/capture.js'
import { leaveCgroup } from '../../ports/processes/cgroup.js'
import { killTree } from '../../ports/processes/kill-tree.js'
import type { Watch } from '../../ports/processes/guardian.js'
import type { Exit } from '../../ports/processes/contain.js'
import { launch, type Launched } from '../../ports/processes/run.js'
import { spendingLimit } from '../budget-watch.js'
import { formats, type FormatName } from './formats.js'
import type { ParsedOutput } from './parsed-output.js'
import { noProgress } from './repeats.js'

export type StopReason = ContinuedLater | 'budget' | 'guardian_lost' | typeof noProgress | Restart

/** The turn continues later: on another worker, or in the next period of a spending limit. */
type ContinuedLater = 'canceled' | 'expired' | typeof spendingLimit

/** The program was to resume a session and has started a new one. */
export const sessionLost = 'session_lost'
/** An urgent message waits: the program is resumed with it. */
export const interrupted = 'interrupted'
/** The run was stopped for another run of the same turn. */
type Restart = typeof sessionLost | typeof interrupted

/** The open input of a running program. */
export type RunInput = Pick<Launched, 'write' | 'endInput'>

export interface CommandRun {
  readonly exit: Exit
  /** Why the run was stopped; absent if the command ended by itself. */
  readonly stopped?: StopReason
  readonly output: ParsedOutput
  readonly stdout: string
  readonly stderr: string
  readonly stdoutBytes: number
  readonly stderrBytes: number
  readonly durationMs: number
  /** Processes that survived SIGKILL: usually none. */
  readonly survivors: readonly number[]
}

export interface CommandRunOptions {
  readonly clock: Clock
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly prompt: string
  /** Keeps the program's input open, and gets it when the program runs. */
  readonly onInput?: ((input: RunInput) => void) | undefined
  readonly token: string
  /** Part of the names of the run's files: turn and epoch. */
  readonly name: string
  readonly format: FormatName
  readonly watch: Watch
  readonly signal: AbortSignal
  /** Takes the listening sockets of a sandbox. */
  readonly onMessage?: ((message: unknown, handle?: unknown) => void) | undefined
  readonly graceMs: number
  /** Called when the program has printed a new usage, the id of its session, or the first answer. */
  readonly onParsed: (output: ParsedOutput) => void
  /** Receives the decoded output, for the transcript. */
  readonly onText: (stream: 'stdout' | 'stderr', text: string) => void
  readonly onChunk?: ((stream: 'stdout' | 'stderr', text: string) => void) | undefined
}

// A result of this size fits into a card; of a longer log, only the end is useful.
const stdoutMaxBytes = 196_608
const jsonMaxBytes = 1_048_576
const stderrMaxBytes = 16_384
// How long to wait for the output pipes to close after the last process has ended.
const drainMs = 2_000
export async function runCommand(options: CommandRunOptions): Promise<CommandRun> {
  const { clock, token, watch, signal, graceMs } = options
  const parser = formats[options.format]()
  const stdout = keepTail(parser.line === undefined && options.format !== 'text' ? jsonMaxBytes : stdoutMaxBytes)
  const stderr = keepTail(stderrMaxBytes)
  const over = new AbortController()
  let stopped: StopReason | undefined
  let resolveStop: () => void = () => undefined
  const stopRequested = new Promise<void>((resolve) => (resolveStop = resolve))
  const stop = (reason: StopReason) => {
    if (over.signal.aborted) return
    stopped ??= reason
    resolveStop()
  }

  const lines = splitLines(jsonMaxBytes, (line) => {
    const { usage, sessionId, answered, read } = parser.output
    parser.line?.(line)
    const now = parser.output
    if (now.usage !== usage || now.sessionId !== sessionId || now.answered !== answered || now.read !== read)
      options.onParsed(now)
  })
  const decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') }
  const startedMs = clock.monotonicMs()
  const run = launch({
    command: options.command,
    cwd: options.cwd,
    env: options.env,
    stdin: options.prompt,
    streams: options.onInput !== undefined,
    token,
    name: options.name,
    onMessage: options.onMessage,
    onOutput(stream, chunk) {
      if (stream === 'stdout') {
        stdout.add(chunk)
        if (parser.line !== undefined) lines.add(chunk)
      } else stderr.add(chunk)
      const text = decoders[stream].write(chunk)
      options.onText(stream, text)
      options.onChunk?.(stream, text)
    },
  })
  if (run.pid !== undefined) watch.root(run.pid)
  options.onInput?.(run)

  const releases = [
    onAbort(signal, () => stop(reasonOf(signal))),
    onAbort(watch.lost, () => stop(watch.lost.reason === 'guardian_lost' ? 'guardian_lost' : 'expired')),
  ]

  const ended = await Promise.race([run.exit, stopRequested])
  over.abort()
  for (const release of releases) release()
  // Also after a normal exit: processes left behind could change files after the delivery.
  const survivors = await killTree({
    clock,
    // Another worker may run an expired turn: its frozen processes get no time to act on SIGTERM.
    graceMs: watch.expired() ? 0 : graceMs,
    wanted: (other) => other === token,
    ...defined({ root: run.pid }),
  })
  leaveCgroup(token)
  const exit = ended ?? (survivors.length === 0 ? await run.exit : { how: 'signalled' as const, signal: 'none' })
  const durationMs = Math.round(clock.monotonicMs() - startedMs)
  await run.drain(clock, drainMs)
  lines.end()
  parser.end?.(stdout.text(), stdout.dropped)
  return {
    exit,
    ...defined({ stopped }),
    output: parser.output,
    stdout: stdout.text(),
    stderr: stderr.text(),
    stdoutBytes: stdout.bytes,
    stderrBytes: stderr.bytes,
    durationMs,
    survivors,
  }
}

const ownReasons = [noProgress, sessionLost, interrupted, spendingLimit] as const

export const continuesLater = ({ stopped }: CommandRun): boolean =>
  stopped === 'canceled' || stopped === 'expired' || stopped === spendingLimit

function reasonOf({ reason }: AbortSignal): StopReason {
  if (reason === budgetExceeded) return 'budget'
  return ownReasons.find((one) => one === reason) ?? 'canceled'
}
