/** `bellwether restore-snapshot [NAME]`: the kept snapshots, and with --apply puts one back. */
import type { Command } from 'commander'
import { restoreSnapshot, type RestoreReport } from '../board/repair/rebuild.js'
import { exitCodes } from './output.js'
import { applies, rootCommand, tell, toolPorts, type RootFlags } from './task-root.js'

interface Flags extends RootFlags {
  readonly from?: string
}

export function restoreSnapshotCommand(finish: (code: number) => void): Command {
  return rootCommand('restore-snapshot', 'show the kept snapshots; with --apply put one back')
    .argument('[name]', 'its file name or timestamp (default: the newest)')
    .option('--from <name>', 'the same as the argument')
    .action(async (name: string | undefined, flags: Flags) => {
      const options = { root: flags.root, apply: applies(flags), snapshot: name ?? flags.from }
      const report = await restoreSnapshot(options, toolPorts())
      tell(flags, report, () => human(report))
      finish(exitCodes.ok)
    })
}

function human(report: RestoreReport): readonly string[] {
  const lines = [`${report.root}: ${report.archived.length} kept`]
  for (const one of report.archived)
    lines.push(`  ${one.name === report.chosen ? '→' : ' '} ${one.name}  ${one.size} bytes`)
  lines.push(
    report.applied
      ? `Restored ${report.chosen}. The log is the truth: rebuild-snapshot tells how the two differ.`
      : `Nothing was changed. To restore ${report.chosen}: --apply`,
  )
  return lines
}
