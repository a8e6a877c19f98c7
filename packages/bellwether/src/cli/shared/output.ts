/** Prints results, errors and the version. An expected error shows its message, code and hint; an unexpected one its stack. */
import { readFileSync } from 'node:fs'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { block, safeJson, plain } from '../../client/sanitize.js'

export const exitCodes = { ok: 0, failure: 1, usage: 2 } as const

export function printError(error: unknown): number {
  if (error instanceof Terminal || error instanceof Retryable) {
    process.stderr.write(`error: ${block(error.message)} [${plain(error.code)}]\n`)
    if (error.hint !== undefined) process.stderr.write(`  ${block(error.hint)}\n`)
    return error instanceof InvalidInput ? exitCodes.usage : exitCodes.failure
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(`unexpected error: ${block(text)}\n`)
  return exitCodes.failure
}

/** While a stream or a poll is interrupted. */
export function printOutage(error: Retryable): void {
  process.stderr.write(`${plain(error.message)}; retrying\n`)
}

export function printLine(facts: object): void {
  process.stdout.write(`${safeJson(facts)}\n`)
}

/** Prints one JSON object with --json, else the sanitized text. */
export function print(flags: { readonly json?: boolean }, facts: object, text: () => string): void {
  if (flags.json === true) printLine(facts)
  else process.stdout.write(`${text().replace(/\n+$/, '')}\n`)
}

export function version(): string {
  const file = new URL('../../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
