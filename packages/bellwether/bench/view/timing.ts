/** Timing for the view benchmark: medians of repeated runs; the output of each command is counted. */
import { spawnSync } from 'node:child_process'

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)]!
}

export const round = (value: number, digits = 2): number => Number(value.toFixed(digits))

export function mustBe(what: string, wanted: number, got: number): void {
  if (wanted !== got)
    throw new Error(`${what}: got ${got}, expected ${wanted}; the figures of this run would be meaningless`)
}

// Enough for a cold `find` over a million files on a busy disk.
const commandMaxMs = 120_000
const outputMax = 512 << 20

/** Runs a command and returns its duration in ms, from before its start until its output is complete. */
export function timeCommand(
  command: string,
  args: readonly string[],
  lines?: number,
  input?: string,
): { readonly ms: number; readonly text: string } {
  const start = performance.now()
  const done = spawnSync(command, args, { maxBuffer: outputMax, timeout: commandMaxMs, input })
  const ms = performance.now() - start
  if (done.status !== 0)
    throw new Error(
      `${command} ended with ${done.status ?? done.signal ?? String(done.error)}: ${done.stderr?.toString().slice(0, 400)}`,
    )
  if (lines !== undefined) mustBe(`lines of ${command} ${args.join(' ')}`, lines, countLines(done.stdout))
  return { ms, text: lines === undefined ? done.stdout.toString() : '' }
}

function countLines(output: Buffer): number {
  let lines = 0
  for (let at = output.indexOf(10); at !== -1; at = output.indexOf(10, at + 1)) lines += 1
  return lines
}
