/** `bellwether restore-snapshot [NAME]`: lists the archived snapshots, and with --apply restores one. */
import type { Command } from 'commander'
import { restoreSnapshot, type RestoreReport } from '../../board/repair/rebuild.js'
import { exitCodes } from '../shared/output.js'
import { applies, rootCommand, printReport, toolPorts, type RootFlags } from './task-root.js'

interface Flags extends RootFlags {
  readonly from?: string
}

export function restoreSnapshotCommand(finish: (code: number) => void): Command {
  return rootCommand('restore-snapshot', 'list the archived snapshots; with --apply restore one')
    .argument('[name]', 'file name or timestamp of the snapshot (default: the newest)')
    .option('--from <name>', 'the same as the argument')
    .action(async (name: string | undefined, flags: Flags) => {
      const options = { root: flags.root, apply: applies(flags), snapshot: name ?? flags.from }
      const report = await restoreSnapshot(options, toolPorts())
      printReport(flags, report, () => formatText(report))
      finish(exitCodes.ok)
    })
}

function formatText(report: RestoreReport): readonly string[] {
  const lines = [`${report.root}: ${report.archived.length} archived snapshots`]
  for (const one of report.archived)
    lines.push(`  ${one.name === report.chosen ? '→' : ' '} ${one.name}  ${one.size} bytes`)
  lines.push(
    report.applied
      ? `Restored ${report.chosen}. Run bellwether rebuild-snapshot to compare it with the log.`
      : `Nothing was changed. Add --apply to restore ${report.chosen}.`,
  )
  return lines
}
