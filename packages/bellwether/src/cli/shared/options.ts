/** Options that several commands share, and parsers that check a value where it is typed. */
import { InvalidInput } from '@bellwether/protocol'
import { InvalidArgumentError, Option, type Command } from 'commander'

export const portMax = 65_535

export function wholeUpTo(max: number, min = 0): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d+$/.test(text) && number >= min && number <= max) return number
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
  }
}

/** A positive amount of money, such as 0.50. */
export function dollarsUpTo(max: number): (text: string) => number {
  return (text) => {
    const amount = Number(text.replace(/^\$/, ''))
    if (/^\$?(?:\d+(?:\.\d*)?|\.\d+)$/.test(text) && amount > 0 && amount <= max) return amount
    throw new InvalidArgumentError(`It must be an amount of dollars such as 0.50, at most ${max}.`)
  }
}

/** For an option that may be repeated. */
export const collect = (value: string, earlier: readonly string[] = []): readonly string[] => [...earlier, value]

/** For lists and streams, beside --json. */
export const jsonLines = () => new Option('--jsonl', 'print one JSON object per line').conflicts('json')

export function parentPipe(): Option {
  return new Option('--parent-pipe', 'stop when stdin ends, for a parent process that holds the other end')
}

/** Checks a required option after parsing, so that the parser reports a mistyped option first. */
export function required(value: string | undefined, command: string, option: string): string {
  if (value !== undefined) return value
  throw new InvalidInput(`bellwether ${command} needs ${option}`, {
    code: 'missing_option',
    hint: `see: bellwether ${command} --help`,
  })
}

export function viewNames(names: readonly string[] = []): string[] {
  for (const name of names) {
    if (/^[a-z0-9][a-z0-9_.-]{0,63}$/i.test(name)) continue
    throw new InvalidInput(`Invalid view name ${JSON.stringify(name)}`, {
      code: 'invalid_name',
      hint: 'use 1 to 64 letters, digits, "_", "." and "-", starting with a letter or digit',
    })
  }
  return [...new Set(names)]
}

/** Of commands that change many turns or tasks; bulk.ts runs them. */
export interface BulkFlags {
  readonly json?: boolean
  readonly all?: boolean
  readonly dryRun?: boolean
  readonly yes?: boolean
}

export const bulkOptions = (command: Command): Command =>
  command
    .option('--all', 'all that match the options below, at most 1,000')
    .option('--dry-run', 'print what would be changed and what would not, and change nothing')
    .option('-y, --yes', 'change without asking')
