/** The evaluation suites of files. While the newest version of a file is invalid, the last valid one stays in force. */
import type { EvalDefinition } from '@bellwether/protocol/http'
import type { Queryable } from '../../../ports/database/database.js'

export interface SuiteName {
  readonly projectId: string
  readonly suite: string
}

export interface SuiteVersion {
  /** `host:path` of the folder. */
  readonly origin: string
  readonly read: { readonly definition: EvalDefinition } | { readonly problem: string }
}

/** Returns whether anything changed. */
export async function putSuite(
  db: Queryable,
  { projectId, suite }: SuiteName,
  { origin, read }: SuiteVersion,
): Promise<boolean> {
  const rows = await db.query({
    name: 'bw_put_eval_suite',
    text: `insert into state.eval_suites as s (project_id, suite_id, origin, definition, problem, updated_at)
      values ($1, $2, $3, $4::jsonb, $5, state.now())
      on conflict (project_id, suite_id) do update set origin = excluded.origin,
        definition = coalesce(excluded.definition, s.definition), problem = excluded.problem, updated_at = state.now()
      where (s.origin, s.problem) is distinct from (excluded.origin, excluded.problem)
        or excluded.definition is not null and excluded.definition is distinct from s.definition
      returning s.suite_id`,
    values: [
      projectId,
      suite,
      origin,
      'definition' in read ? JSON.stringify(read.definition) : null,
      'problem' in read ? read.problem : null,
    ],
  })
  return rows.length > 0
}

/** Deletes the suites of this folder that are not among `present`, and returns their names. Their runs stay. */
export async function deleteSuitesExcept(
  db: Queryable,
  projectId: string,
  origin: string,
  present: readonly string[],
): Promise<string[]> {
  const rows = await db.query<{ suite_id: string }>({
    name: 'bw_delete_eval_suites',
    text: `delete from state.eval_suites where project_id = $1 and origin = $2 and suite_id <> all ($3::text[])
      returning suite_id`,
    values: [projectId, origin, present],
  })
  return rows.map((row) => row.suite_id)
}
