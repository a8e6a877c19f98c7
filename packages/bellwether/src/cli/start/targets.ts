/** `bellwether targets`: the worker targets that the agents of a project may have. Only an administrator changes them. */
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import { openClient, toServer, type ServerFlags } from '../shared/client.js'
import { jsonLines } from '../shared/options.js'
import { print, printList } from '../shared/output.js'
import { table } from '../shared/terminal.js'

const shown = (targets: readonly string[] | null) => targets?.join(' ') ?? 'all'

export function targetsCommand(): Command {
  const targets = new Command('targets')
    .description('list and set the worker targets that a project may use')
    .helpCommand(false)
  toServer(targets.command('list', { isDefault: true }), 'all projects')
    .description('list the targets of each project (the default)')
    .addOption(jsonLines())
    .action(async (flags: ServerFlags) => {
      const { projects } = await openClient(flags).ask('GET /projects')
      const rows = projects.filter((one) => flags.project === undefined || one.project_id === flags.project)
      const cells = rows.map((row) => [row.project_id, shown(row.worker_targets) || 'none'])
      printList(flags, { projects: rows }, rows, () =>
        table(['PROJECT', 'TARGETS'], cells, process.stdout.columns, [0]),
      )
    })
  toServer(targets.command('set [targets...]'))
    .description('let agents of the project use these targets only')
    .option('--all', 'let them use all targets')
    .action(async (names: readonly string[], flags: ServerFlags & { readonly all?: boolean }) => {
      if (names.length > 0 === (flags.all === true)) {
        throw new InvalidInput('Cannot set the targets: give target names, or --all', {
          code: 'invalid_targets',
          hint: 'for example: bellwether targets set gpu default --project news',
        })
      }
      const worker_targets = flags.all === true ? null : [...names]
      const set = await openClient(flags).ask('PUT /projects/:project/targets', { body: { worker_targets } })
      print(flags, set, () => `Agents of project ${set.project_id} may use: ${shown(set.worker_targets)}`)
    })
  return targets
}
