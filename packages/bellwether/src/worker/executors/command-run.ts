/**
 * One run of a command, from launch until nothing of it is left. Always: whatever ends it first (itself, a halt, its budget, its
 * guardian), every process of the turn is ended before this resolves; memory stays within bounds however much is printed.
 */
import { StringDecoder } from 'node:string_decoder'
import type { Clock } from '@bellwether/base'
import { keepTail, splitLines } from '../../ports/processes/capture.js'
import { killTree } from '../../ports/processes/kill-tree.js'
import type { Watch } from '../../ports/processes/guardian.js'
import { launch, type Exit } from '../../ports/processes/run.js'
import { formats, type Answer, type FormatName } from './formats.js'

export type Cut = 'halted' | 'wall_time' | 'tokens' | 'expired' | 'guardian_lost'

export interface CommandRun {
  readonly exit: Exit
  /** What ended it before its time. */
  readonly cut?: Cut
  readonly answer: Answer
  readonly stdout: string
  readonly stderr: string
  readonly stdoutBytes: number
  readonly stderrBytes: number
  readonly durationMs: number
  /** Processes that would not go: usually none. */
  readonly left: readonly number[]
}

export interface CommandRunOptions {
  readonly clock: Clock
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly prompt: string
  readonly token: string
  /** Names the run's files: one turn and epoch. */
  readonly name: string
  readonly format: FormatName
  readonly watch: Watch
  readonly signal: AbortSignal
  readonly graceMs: number
  readonly maxWallMs?: number | undefined
  readonly maxTokens?: number | undefined
  readonly onChunk?: ((stream: 'stdout' | 'stderr', text: string) => void) | undefined
}

// An answer of this size still fits a card; a program's log helps nobody beyond its end.
const stdoutMaxBytes = 196_608
const jsonMaxBytes = 1_048_576
const stderrMaxBytes = 16_384
// How long outputs may stay open when nobody is left who could write to them.
const drainMs = 2_000
// A timer that is set for longer fires at once; the turn's deadline ends what takes this long.
const timerMaxMs = 2_147_483_647

export async function runToItsEnd(options: CommandRunOptions): Promise<CommandRun> {
  const { clock, token, watch, signal, graceMs, maxWallMs, maxTokens } = options
  const reader = formats[options.format]()
  const stdout = keepTail(reader.line === undefined && options.format !== 'text' ? jsonMaxBytes : stdoutMaxBytes)
  const stderr = keepTail(stderrMaxBytes)
  const over = new AbortController()
  let cut: Cut | undefined
  let stop: () => void = () => undefined
  const stopped = new Promise<void>((resolve) => (stop = resolve))
  const cutBy = (why: Cut) => {
    if (over.signal.aborted) return
    cut ??= why
    stop()
  }

  const lines = splitLines(jsonMaxBytes, (line) => {
    reader.line?.(line)
    if (maxTokens !== undefined && (reader.answer.usage?.total_tokens ?? 0) > maxTokens) cutBy('tokens')
  })
  const decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') }
  const startedMs = clock.monotonicMs()
  const run = launch({
    command: options.command,
    cwd: options.cwd,
    env: options.env,
    stdin: options.prompt,
    name: options.name,
    onOutput(stream, chunk) {
      if (stream === 'stdout') {
        stdout.add(chunk)
        if (reader.line !== undefined) lines.add(chunk)
      } else stderr.add(chunk)
      options.onChunk?.(stream, decoders[stream].write(chunk))
    },
  })
  if (run.pid !== undefined) watch.root(run.pid)

  const onHalt = () => cutBy('halted')
  const onLost = () => cutBy(watch.lost.reason === 'guardian_lost' ? 'guardian_lost' : 'expired')
  if (signal.aborted) onHalt()
  if (watch.lost.aborted) onLost()
  signal.addEventListener('abort', onHalt, { once: true })
  watch.lost.addEventListener('abort', onLost, { once: true })
  if (maxWallMs !== undefined)
    void clock.sleep(Math.min(maxWallMs, timerMaxMs), over.signal).then(() => cutBy('wall_time'))

  const ended = await Promise.race([run.exit, stopped])
  over.abort()
  signal.removeEventListener('abort', onHalt)
  watch.lost.removeEventListener('abort', onLost)
  // Also after a normal exit: what it left behind would go on working on what has been delivered.
  const root = run.pid === undefined ? {} : { root: run.pid }
  const left = await killTree({ clock, graceMs, wanted: (other) => other === token, ...root })
  const exit = ended ?? (left.length === 0 ? await run.exit : { how: 'signalled' as const, signal: 'none' })
  const durationMs = Math.round(clock.monotonicMs() - startedMs)
  await run.drain(clock, drainMs)
  lines.end()
  reader.whole?.(stdout.text(), stdout.dropped)
  return {
    exit,
    ...(cut === undefined ? {} : { cut }),
    answer: reader.answer,
    stdout: stdout.text(),
    stderr: stderr.text(),
    stdoutBytes: stdout.bytes,
    stderrBytes: stderr.bytes,
    durationMs,
    left,
  }
}
