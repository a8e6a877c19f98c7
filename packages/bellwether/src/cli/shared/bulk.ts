/**
 * Runs a bulk action on turns or tasks of a server: previews it, asks, sends the affected rows in parts, and prints the result of each row. A part
 * that is lost is reported as failed; the command can be repeated, because no row is changed twice.
 */
import { bulkCounts, InvalidInput, plural, Retryable } from '@bellwether/protocol'
import type { BulkTaskRow, BulkTurnRow } from '@bellwether/protocol/http'
import { plain } from '../../client/sanitize.js'
import type { BulkFlags } from './options.js'
import { exitCodes, print } from './output.js'
import { table } from './terminal.js'

type BulkRow = BulkTurnRow | BulkTaskRow

interface Report<Row> {
  readonly more: boolean
  readonly rows: readonly Row[]
}

export interface BulkPorts<Row extends BulkRow> {
  /** `stop`, `retry`, `freeze`, … */
  readonly action: string
  readonly noun: 'turn' | 'task'
  preview(): Promise<Report<Row>>
  run(rows: readonly Row[]): Promise<Report<Row>>
  /** The cells of a row: its id, name and status. */
  cells(row: Row): readonly string[]
}

// A part takes well under a second.
const partRows = 50

export async function runBulk<Row extends BulkRow>(flags: BulkFlags, ports: BulkPorts<Row>): Promise<number> {
  const { action, noun } = ports
  const preview = await ports.preview()
  const affected = preview.rows.filter(({ result }) => result === 'affected')
  if (flags.dryRun === true || affected.length === 0) {
    print(flags, { dry_run: true, ...bulkCounts(preview.rows), ...preview }, () => text(ports, preview, 'would change'))
    return exitCodes.ok
  }
  if (flags.yes !== true) {
    process.stderr.write(`${text(ports, preview, 'would change')}\n`)
    const { isAccepted } = await import('../start/accept.js')
    if (!(await isAccepted(`${action} ${plural(affected.length, noun)}?`)))
      throw new InvalidInput(
        `Cannot ${action} ${plural(affected.length, noun)}: no one confirmed it, so nothing was changed`,
        {
          code: 'not_confirmed',
          hint: 'run it in a terminal and answer y, or add --yes; --dry-run only shows what would change',
        },
      )
  }
  const done = new Map<Row, Row>()
  for (let at = 0; at < affected.length; at += partRows) {
    const part = affected.slice(at, at + partRows)
    try {
      const { rows } = await ports.run(part)
      part.forEach((row, index) => done.set(row, rows[index] ?? row))
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      // The server may have changed them: repeating the command is safe.
      for (const row of affected.slice(at)) done.set(row, { ...row, result: 'failed', reason: error.message })
      break
    }
    if (process.stderr.isTTY)
      process.stderr.write(`\r${Math.min(at + partRows, affected.length)} of ${affected.length}`)
  }
  if (process.stderr.isTTY) process.stderr.write('\n')
  const rows = preview.rows.map((row) => done.get(row) ?? row)
  const report = { more: preview.more, rows }
  const counts = bulkCounts(rows)
  print(flags, { dry_run: false, ...counts, ...report }, () => text(ports, report, 'changed'))
  return counts.failed > 0 ? exitCodes.failure : exitCodes.ok
}

function text<Row extends BulkRow>(ports: BulkPorts<Row>, { rows, more }: Report<Row>, verb: string): string {
  const { affected, unaffected, failed } = bulkCounts(rows)
  const others = [unaffected === 0 ? [] : `${unaffected} unaffected`, failed === 0 ? [] : `${failed} failed`].flat()
  const head = [`${ports.action}: ${verb} ${plural(affected, ports.noun)}`, ...others].join('; ')
  if (rows.length === 0) return `No ${ports.noun} matches`
  const lines = rows.map((row) => [
    row.result === 'affected' ? verb : row.result === 'failed' ? 'failed' : 'unaffected',
    ...ports.cells(row),
    row.reason ?? '',
  ])
  const rest = more ? '\nMore rows match: repeat the command' : ''
  return `${table(['RESULT', ports.noun.toUpperCase(), 'NAME', 'STATUS', 'WHY'], lines, process.stdout.columns, [1])}\n${plain(head)}${rest}`
}
