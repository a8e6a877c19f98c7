/** `task done`: a person finishes a task, with the checks of a run. */
import { defined } from '@bellwether/base'
import type { Command } from 'commander'
import { plain } from '../../../client/sanitize.js'
import { collect } from '../../shared/options.js'
import { print as printResult } from '../../shared/output.js'
import { changed } from './edit.js'
import { boardServer, onRoot, whoAmI, withCommon, type CommonFlags } from './root.js'

export function doneCommand(task: Command): void {
  withCommon(task.command('done <id>'))
    .description('finish a task yourself; its verify commands must pass')
    .option('--file <path>', 'a file as evidence, checked and recorded; may be repeated', collect)
    .option('--note <text>', 'a note for the log')
    .option('--unchecked', 'skip all checks')
    .action(async (id: string, flags: CommonFlags & { file?: string[]; note?: string; unchecked?: boolean }) => {
      const server = await boardServer(flags)
      if (server !== undefined) {
        const { fields } = await changed(server, id, {
          action: 'done',
          ...defined({ files: flags.file, reason: flags.note, unchecked: flags.unchecked }),
        })
        const evidence = fields['evidence'] ?? null
        return printResult(flags, { taskId: id, status: 'done', evidence }, () => `${plain(id)} is done`)
      }
      return onRoot(flags, 'write', async (opened) => {
        const [{ finishChecked }, { idleDispatcher }] = await Promise.all([
          import('../../../board/dispatch/finish.js'),
          import('./idle-dispatcher.js'),
        ])
        const { board } = opened
        const dispatcher = idleDispatcher(opened, whoAmI(flags))
        await finishChecked(dispatcher, id, {
          by: whoAmI(flags),
          ...defined({ files: flags.file, note: flags.note, unchecked: flags.unchecked }),
        })
        const evidence = board.state.tasks.get(id)?.fields['evidence'] ?? null
        printResult(flags, { taskId: id, status: 'done', evidence }, () => `${id} is done`)
      })
    })
}
