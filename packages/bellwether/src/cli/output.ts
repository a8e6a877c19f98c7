/** How a failure is told to people: what happened, what to do about it, and the exit code. A stack only for what nobody foresaw. */
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { block, harmlessJson, plain } from '../client/sanitize.js'

export const exitCodes = { ok: 0, failure: 1, usage: 2 } as const

export function explain(error: unknown): number {
  if (error instanceof Terminal || error instanceof Retryable) {
    process.stderr.write(`error: ${block(error.message)} [${plain(error.code)}]\n`)
    if (error.hint !== undefined) process.stderr.write(`  ${block(error.hint)}\n`)
    return error instanceof InvalidInput ? exitCodes.usage : exitCodes.failure
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(`unexpected error: ${block(text)}\n`)
  return exitCodes.failure
}

export function printLine(facts: object): void {
  process.stdout.write(`${harmlessJson(facts)}\n`)
}

/** With --json one object a line, else words that have been made harmless. */
export function tell(flags: { readonly json?: boolean }, facts: object, words: () => string): void {
  if (flags.json === true) printLine(facts)
  else process.stdout.write(`${words().replace(/\n+$/, '')}\n`)
}
