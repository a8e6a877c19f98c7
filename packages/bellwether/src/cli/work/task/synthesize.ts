/** `task synthesize`: writes a Markdown report of the board. */
import { writeFile } from 'node:fs/promises'
import { errorMessage, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Command } from 'commander'
import { markdownReport } from '../../../board/tasks/markdown-report.js'
import { retryCall } from '../../../ports/retry.js'
import { print as printResult } from '../../shared/output.js'
import { rulesOf } from './queries.js'
import { boardServer, onRoot, withCommon, type CommonFlags } from './root.js'

export function synthesizeCommand(task: Command): void {
  withCommon(task.command('synthesize'))
    .description('write a Markdown report of the board')
    .option('--out <file>', 'write the report to this file instead of stdout')
    .action(async (flags: CommonFlags & { out?: string }) => {
      if ((await boardServer(flags)) !== undefined)
        throw new InvalidInput('synthesize reads local files and cannot be combined with --server.', {
          code: 'contradicting_options',
          hint: 'Omit --server.',
        })
      await onRoot(flags, 'read', async (opened) => {
        const rules = await rulesOf(opened)
        const { out } = flags
        const synthesize = async (signal: AbortSignal) => {
          const report = markdownReport(opened.board.state, systemClock.wallMs(), rules)
          if (out !== undefined) await writeFile(out, report.markdown, { signal })
          return report
        }
        const call = { kind: 'synthesis', name: 'writing the report' } as const
        const ports = { clock: systemClock, random: systemRandom }
        const { markdown, summary } = await retryCall(opened.calls, call, synthesize, ports).catch((error: unknown) => {
          throw new InvalidInput(
            `Cannot write the report${out === undefined ? '' : ` to ${out}`}: ${errorMessage(error)}.`,
            { code: 'no_report' },
          )
        })
        if (out !== undefined) return printResult(flags, { ...summary, out }, () => `written: ${out}`)
        printResult(flags, { ...summary, markdown }, () => markdown)
      })
    })
}
