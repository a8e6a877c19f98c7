/** `bellwether doctor`: checks the set-up of this folder and says what to fix. Changes nothing; exit code 1 if a check fails. */
import { resolve } from 'node:path'
import { environment } from '@bellwether/base'
import { Command } from 'commander'
import { block } from '../../client/sanitize.js'
import type { Finding } from '../../runtime/doctor/finding.js'
import { exitCodes, printLine } from '../shared/output.js'

const marks = { good: 'ok  ', warning: 'warn', bad: 'BAD ' } as const

export function doctorCommand(finish: (code: number) => void): Command {
  return new Command('doctor')
    .description('check the set-up of this folder and say what to fix')
    .option('--data <dir>', 'the folder of the run-time files (default: that of `up`)')
    .option('--json', 'print one JSON object')
    .action(async (flags: { readonly data?: string; readonly json?: boolean }) => {
      const [{ examine }, { dataFolderOf }] = await Promise.all([
        import('../../runtime/doctor/examine.js'),
        import('../../runtime/data-folder.js'),
      ])
      const folder = process.cwd()
      const findings = await examine({
        folder,
        dataDir: flags.data === undefined ? dataFolderOf(folder) : resolve(flags.data),
        env: environment(),
      })
      const ok = findings.every((finding) => finding.state !== 'bad')
      if (flags.json === true) printLine({ ok, findings })
      else process.stdout.write(`${findings.map(findingText).join('\n')}\n`)
      finish(ok ? exitCodes.ok : exitCodes.failure)
    })
}

/** File names and errors in a finding may come from agents. */
export function findingText({ check, state, found, fix }: Finding): string {
  const indent = `\n${' '.repeat(16)}`
  return `${marks[state]}  ${check.padEnd(9)} ${block(found).replaceAll('\n', indent)}${fix === undefined ? '' : `${indent}→ ${block(fix).replaceAll('\n', `${indent}→ `)}`}`
}
