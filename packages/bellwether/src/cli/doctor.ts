/** `bellwether doctor`: what could keep this folder from working, and how to mend it. Changes nothing; exit 1 when something is bad. */
import { resolve } from 'node:path'
import { environment } from '@bellwether/base'
import { Command } from 'commander'
import { examine, type Finding } from '../runtime/doctor.js'
import { exitCodes, printLine } from './output.js'

const marks = { good: 'ok  ', warning: 'warn', bad: 'BAD ' } as const

export function doctorCommand(finish: (code: number) => void): Command {
  return new Command('doctor')
    .description('look for what could keep this folder from working, and say how to mend it')
    .option('--data <dir>', 'where the run-time files are', '.bellwether')
    .option('--json', 'print one object')
    .action(async (flags: { readonly data: string; readonly json?: boolean }) => {
      const folder = process.cwd()
      const findings = await examine({ folder, dataDir: resolve(flags.data), env: environment() })
      const well = findings.every((finding) => finding.state !== 'bad')
      if (flags.json === true) printLine({ well, findings })
      else process.stdout.write(`${findings.map(line).join('\n')}\n`)
      finish(well ? exitCodes.ok : exitCodes.failure)
    })
}

function line({ what, state, found, mend }: Finding): string {
  return `${marks[state]}  ${what.padEnd(9)} ${found}${mend === undefined ? '' : `\n      ${' '.repeat(10)}→ ${mend}`}`
}
