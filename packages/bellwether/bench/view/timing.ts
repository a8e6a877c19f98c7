/** How the view's bench takes times: medians of repeated runs, and what a command printed is counted, not believed. */
import { spawnSync } from 'node:child_process'

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)]!
}

export const round = (value: number, digits = 2): number => Number(value.toFixed(digits))

export function mustBe(what: string, wanted: number, got: number): void {
  if (wanted !== got) throw new Error(`${what}: ${got} instead of ${wanted}; a figure of this run would mean nothing`)
}

// A cold `find` over a million files on a busy disk.
const commandMaxMs = 120_000
const outputMax = 512 << 20

/** Runs a command and returns its milliseconds, from before it starts until its output is complete. */
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
