/** Resume: every awaited result has arrived; the first worker that resumes the turn holds it. */
import type { Queryable } from '../../../ports/database/database.js'
import { call, fenceRow, type Fence, type Verdict } from '../../verdict.js'

/** `stepId`: the step whose results the caller has read. A turn that has moved on since is not resumed with old results. */
export async function resume(
  db: Queryable,
  fence: Fence,
  workerId: string,
  stepId?: string,
): Promise<'resumed' | 'stale'> {
  const [verdict] = await call<Verdict<'resumed' | 'stale'>>(
    db,
    'resume',
    [{ ...fenceRow(fence), step_id: stepId }],
    workerId,
  )
  return verdict?.what ?? 'stale'
}
