/** Prints results and errors. An expected error shows its message, code and hint; an unexpected one its stack. */
import { environment, errorStack, type Environment } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { block, safeJson, plain } from '../../client/sanitize.js'

export const exitCodes = { ok: 0, failure: 1, usage: 2 } as const

export function printError(error: unknown): number {
  if (error instanceof Terminal || error instanceof Retryable) {
    process.stderr.write(`error: ${block(error.message)} [${plain(error.code)}]\n`)
    if (error.hint !== undefined) process.stderr.write(`  ${asTyped(block(error.hint))}\n`)
    return error instanceof InvalidInput ? exitCodes.usage : exitCodes.failure
  }
  const text = errorStack(error)
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

/** A list: with --json the whole as one object, with --jsonl one object per item, else the sanitized text. */
export function printList(flags: JsonFlags, whole: object, items: readonly object[], text: () => string): void {
  if (flags.jsonl === true) items.forEach(printLine)
  else print(flags, whole, text)
}

export interface JsonFlags {
  readonly json?: boolean
  readonly jsonl?: boolean
}

/** For output that has no end: it cannot be one object. */
export function asStream({ json, jsonl }: JsonFlags): { readonly json: boolean } {
  if (json === true)
    throw new InvalidInput('--json prints one object, and this output has no end', {
      code: 'contradicting_options',
      hint: 'use --jsonl: one JSON object per line',
    })
  return { json: jsonl === true }
}

/** What a person types to start this program: with npx, it is not on the search path of the terminal. */
export const programName = (env: Environment = environment()) =>
  env['npm_command'] === 'exec' ? 'npx bellwether' : 'bellwether'

/** A text of ours with commands, as a person types them. Paths that contain the name stay as they are. */
export const asTyped = (text: string, env: Environment = environment()) =>
  text.replaceAll(/(?<![\w./-])bellwether (?=[a-z-])/g, `${programName(env)} `)
