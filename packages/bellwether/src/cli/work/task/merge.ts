/** `task merge` and `task keep`: what a person decides about the change of a task in its git worktree. */
import { defined } from '@bellwether/base'
import type { Command } from 'commander'
import type { TaskView } from '../../../board/tasks/task-view.js'
import { plain } from '../../../client/sanitize.js'
import { exitCodes, print as printResult } from '../../shared/output.js'
import { changed } from './edit.js'
import { boardServer, onRoot, whoAmI, withCommon, type CommonFlags } from './root.js'

interface Flags extends CommonFlags {
  readonly reason?: string
}

export function mergeCommands(task: Command, finish: (code: number) => void): void {
  withCommon(task.command('merge <id>'))
    .description('merge the accepted change of a task into its base branch')
    .option('--reason <text>', 'the reason, for the log')
    .action((id: string, flags: Flags) => decide('merge', id, flags).then(finish))
  withCommon(task.command('keep <id>'))
    .description('finish a task without a merge; its commits stay on its branch')
    .option('--reason <text>', 'the reason, for the log')
    .action((id: string, flags: Flags) => decide('keep', id, flags).then(finish))
}

async function decide(action: 'merge' | 'keep', id: string, flags: Flags): Promise<number> {
  const why = defined({ reason: flags.reason })
  const show = ({ status, reason, fields }: Pick<TaskView, 'status' | 'reason' | 'fields'>) => {
    const merged = (fields['merged'] ?? null) as { readonly commit?: string; readonly base?: string } | null
    const standing =
      status === 'done'
        ? action === 'keep'
          ? 'is done; its commits stay on its branch'
          : `is merged into ${merged?.base ?? 'its base'} (${merged?.commit?.slice(0, 12) ?? ''})`
        : status === 'review'
          ? 'is merged next'
          : `is ${status}: ${reason ?? ''}`
    printResult(flags, { taskId: id, status, reason, merged }, () => plain(`${id} ${standing}`))
    return status === 'blocked' ? exitCodes.failure : exitCodes.ok
  }
  const server = await boardServer(flags)
  if (server !== undefined) return show(await changed(server, id, { action, ...why }))
  return onRoot(flags, 'write', async (opened) => {
    const [{ mergeQueued }, { releaseWorktree }, { keepBranch, mergeTask }, { idleDispatcher }] = await Promise.all([
      import('../../../board/dispatch/merge.js'),
      import('../../../board/dispatch/workspace.js'),
      import('../../../board/tasks/merge-commands.js'),
      import('./idle-dispatcher.js'),
    ])
    const dispatcher = idleDispatcher(opened, whoAmI(flags))
    const policies = await dispatcher.policies()
    const input = { by: whoAmI(flags), ...why }
    await (action === 'merge' ? mergeTask : keepBranch)(opened.operator, id, input)
    if (action === 'merge') await mergeQueued(dispatcher, policies)
    await releaseWorktree(dispatcher, policies, id)
    return show(opened.board.state.tasks.get(id)!)
  })
}
