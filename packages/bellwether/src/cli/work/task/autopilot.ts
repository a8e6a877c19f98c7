/** `task autopilot`: dispatches ready tasks to the agents of a project until it is stopped. */
import { defined } from '@bellwether/base'
import type { Command } from 'commander'
import { printLine } from '../../shared/output.js'
import { parentPipe } from '../../shared/options.js'

interface Flags {
  readonly root?: string
  readonly project: string
  readonly json?: boolean
  readonly parentPipe?: boolean
}

export function autopilotCommand(task: Command, finish: (code: number) => void): void {
  task
    .command('autopilot')
    .description('dispatch ready tasks to the agents of a project, using [database] url')
    .requiredOption('--project <name>', 'the project whose agents run the tasks')
    .option('--root <dir>', 'the task root (default: [board] root, else this folder)')
    .option('--json', 'print one JSON object when ready')
    .addOption(parentPipe())
    .action(async ({ root, project, json, parentPipe: pipe }: Flags) => {
      // The help page of `task` does not load the database driver.
      const { runAutopilotProcess } = await import('../../../runtime/autopilot.js')
      finish(
        await runAutopilotProcess({
          folder: process.cwd(),
          projectId: project,
          parentPipe: pipe ?? false,
          ...defined({ root }),
          ...(json === true ? { onReady: printLine } : {}),
        }),
      )
    })
}
