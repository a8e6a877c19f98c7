/**
 * Reads one page of a log backwards by the number of its rows. A filter that few rows match costs no more than a bounded scan: then the page
 * is short, and its cursor continues after the last row that was scanned.
 */
import type { Queryable } from '../../ports/database/database.js'

export interface BackwardScan<Row> {
  /** Of the prepared statement. */
  readonly name: string
  readonly table: string
  /** The column with the number. */
  readonly id: keyof Row & string
  /** The filter on row `l`. Its values are $3, $4, … */
  readonly where: string
  readonly values: readonly unknown[]
  /** Only rows older than this one. */
  readonly before: number | undefined
  readonly limit: number
}

// Rows scanned for one page, whatever the filter.
const scanMax = 20_000

/** Newest first. */
export async function scanBack<Row extends object>(
  db: Queryable,
  { name, table, id, where, values, before, limit }: BackwardScan<Row>,
): Promise<{ readonly rows: readonly Row[]; readonly cursor: number | null }> {
  const found = await db.query<Row & { readonly edge: number | null }>({
    name,
    text: `with scanned as materialized (select * from ${table} where ${id} < $1 order by ${id} desc limit ${scanMax}),
      page as (select * from scanned l where ${where} order by ${id} desc limit $2)
      select e.edge, p.* from (select case when count(*) = ${scanMax} then min(${id}) end as edge from scanned) e
      left join page p on true order by p.${id} desc`,
    values: [before ?? Number.MAX_SAFE_INTEGER, limit, ...values],
  })
  const numberOf = (row: object) => (row as Readonly<Record<string, number | null>>)[id] ?? null
  const rows = found.filter((row) => numberOf(row) !== null).map(({ edge: _edge, ...row }) => row as unknown as Row)
  return { rows, cursor: rows.length === limit ? numberOf(rows.at(-1)!) : (found[0]?.edge ?? null) }
}
