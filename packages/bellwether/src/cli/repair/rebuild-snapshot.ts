/** `bellwether rebuild-snapshot`: replays the log, compares it with the live snapshot, and with --apply replaces the snapshot. */
import { defined } from '@bellwether/base'
import type { Command } from 'commander'
import { rebuildSnapshot, type RebuildReport } from '../../board/repair/rebuild.js'
import { exitCodes } from '../shared/output.js'
import { applies, rootCommand, sanitized, printReport, toolPorts, type RootFlags } from './task-root.js'

interface Flags extends RootFlags {
  readonly compactJsonl?: string
}

export function rebuildSnapshotCommand(finish: (code: number) => void): Command {
  return rootCommand(
    'rebuild-snapshot',
    'replay state/tasks.jsonl and compare it with the snapshot; with --apply write the snapshot',
  )
    .option(
      '--compact-jsonl <out>',
      'also write the lines that count to a new file, without duplicates and broken lines',
    )
    .action(async (flags: Flags) => {
      const bar = process.stderr.isTTY ? progressBar() : undefined
      const report = await rebuildSnapshot(
        {
          root: flags.root,
          apply: applies(flags),
          compactTo: flags.compactJsonl,
          ...defined({ onProgress: bar?.show }),
        },
        toolPorts(),
      )
      bar?.clear()
      printReport(flags, report, () => formatText(report))
      finish(report.ok ? exitCodes.ok : exitCodes.failure)
    })
}

const barWidth = 30

/** A progress line on the terminal, redrawn per percent. */
function progressBar(): { readonly show: (position: number, size: number) => void; readonly clear: () => void } {
  let drawn = -1
  return {
    show(position, size) {
      const percent = size === 0 ? 100 : Math.floor((position / size) * 100)
      if (percent === drawn) return
      drawn = percent
      const full = Math.round((percent / 100) * barWidth)
      process.stderr.write(`\rreplaying ${'█'.repeat(full)}${'░'.repeat(barWidth - full)} ${percent} %`)
    },
    clear() {
      if (drawn >= 0) process.stderr.write(`\r${' '.repeat(barWidth + 20)}\r`)
    },
  }
}

const shownMax = 20

function formatText(report: RebuildReport): readonly string[] {
  const { diff, errors, compacted } = report
  const lines = [
    `${report.root}: ${report.events} events of ${report.lines} lines, ${report.tasks} tasks, last event ${report.meta.updatedAt ?? 'none'}`,
    `  rebuilt ${report.rebuiltHash.slice(0, 16)}  live ${report.liveHash?.slice(0, 16) ?? `(${report.live})`}  ${report.match ? 'equal' : 'different'}`,
  ]
  if (!report.match) {
    lines.push(`  ${diff.added} added, ${diff.removed} removed, ${diff.changed} changed`)
    for (const [word, ids] of [
      ['added', diff.sampleAdded],
      ['removed', diff.sampleRemoved],
      ['changed', diff.sampleChanged],
    ] as const)
      if (ids.length > 0) lines.push(`    ${word}: ${ids.map((id) => sanitized(id)).join(', ')}`)
  }
  for (const [kind, count] of Object.entries(errors.counts)) lines.push(`  ${count} × ${kind}`)
  for (const { line, kind, detail } of errors.items.slice(0, shownMax))
    lines.push(`    line ${line}: ${kind}${detail === '' ? '' : ` (${sanitized(detail)})`}`)
  if (errors.total > shownMax) lines.push(`    … and ${errors.total - shownMax} more (--json lists up to 1,000)`)
  for (const { taskId, line, kind } of report.held.slice(0, shownMax))
    lines.push(`  held for a person: ${sanitized(taskId)} (line ${line}: ${kind})`)
  if (report.held.length > shownMax) lines.push(`    … and ${report.held.length - shownMax} more held tasks (--json)`)
  if (report.held.length > 0)
    lines.push('  Check these lines and tasks, then run bellwether task release ID, done ID or retry ID.')
  if (report.tornLastLine) lines.push('  the last line is incomplete; the next writer closes it')
  for (const ring of report.dependencyCycles)
    lines.push(`  dependency cycle: ${ring.map((id) => sanitized(id)).join(' → ')}`)
  if (compacted !== null)
    lines.push(`  compacted: ${compacted.lines} lines in ${compacted.path}, ${compacted.dropped} omitted`)
  if (report.applied) lines.push(`Written to ${report.snapshot}, archived as ${report.archivedAs ?? '?'}`)
  else if (!report.match) lines.push('Nothing was changed. Add --apply to write the snapshot.')
  return lines
}
