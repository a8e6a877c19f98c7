/** How a failure is told to people: what happened, what to do about it, and the exit code. A stack only for what nobody foresaw. */
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'

export const exitCodes = { ok: 0, failure: 1, usage: 2 } as const

export function explain(error: unknown): number {
  if (error instanceof Terminal || error instanceof Retryable) {
    process.stderr.write(`error: ${error.message} [${error.code}]\n`)
    if (error.hint !== undefined) process.stderr.write(`  ${error.hint}\n`)
    return error instanceof InvalidInput ? exitCodes.usage : exitCodes.failure
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(`unexpected error: ${text}\n`)
  return exitCodes.failure
}

export function printLine(facts: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`${JSON.stringify(facts)}\n`)
}
