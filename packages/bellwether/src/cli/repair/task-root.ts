/** Shared by the repair tools of a task root: their options, ports and output. */
import { type Log, systemClock, systemRandom } from '@bellwether/base'
import { Command } from 'commander'
import { InvalidInput } from '@bellwether/protocol'
import type { LockPorts } from '../../board/log/locks/locks.js'
import { systemDisk } from '../../ports/disk/disk.js'
import { systemMachine } from '../../ports/disk/machine.js'
import { uuidv7 } from '../../ports/ids.js'
import { print } from '../shared/output.js'
import { plain } from '../../client/sanitize.js'

export interface RootFlags {
  readonly root: string
  readonly dryRun?: boolean
  readonly apply?: boolean
  readonly json?: boolean
}

/** Logs to stderr, because the result goes to stdout. */
const stderrLog: Log = {
  info: () => undefined,
  warn: (fields, message) => void process.stderr.write(`warning: ${message} ${JSON.stringify(fields)}\n`),
  error: (fields, message) => void process.stderr.write(`error: ${message} ${JSON.stringify(fields)}\n`),
}

export function toolPorts(): LockPorts {
  const ids = uuidv7(systemClock, systemRandom)
  return { disk: systemDisk, machine: systemMachine, clock: systemClock, ids, log: stderrLog }
}

export function rootCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--root <dir>', 'the task root', '.')
    .option('--dry-run', 'only show what would change (the default)')
    .option('--apply', 'make the changes')
    .option('--json', 'print one JSON object')
}

export function applies({ apply = false, dryRun = false }: RootFlags): boolean {
  if (apply && dryRun) {
    throw new InvalidInput('--apply and --dry-run cannot be combined.', {
      code: 'bad_option',
      hint: 'Omit one of them.',
    })
  }
  return apply
}

export function printReport(flags: RootFlags, report: object, lines: () => readonly string[]): void {
  print(flags, report, () => lines().join('\n'))
}

/** Text from files may contain control characters, which must not reach the terminal. */
export function sanitized(text: string | null): string {
  return plain(text ?? '?').slice(0, 200)
}
