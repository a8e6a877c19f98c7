/**
 * Judges what happened so far, from the database: every healthy turn succeeded exactly once, every poison turn ended with its own
 * error, every task is done, and the feed has the end of every turn. Called when no work is open.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { projectId, targets } from '../actors.js'
import { checkTurns, turnsSince, type Mark, type TurnCheck } from '../check.js'
import { readTask, type Context } from '../context.js'
import type { Database } from '../database.js'
import type { Feed } from './feed.js'
import { expectations, functionTarget, overlapsFile } from './project.js'

export interface Judgement {
  readonly check: TurnCheck
  readonly tasks: Readonly<Record<string, number>>
  readonly violations: readonly string[]
}

export interface Evidence {
  readonly context: Context
  readonly db: Database
  readonly start: Mark
  readonly feed: Feed
  readonly project: string
}

/** The turns of the run whose end the feed has not received. */
export async function missingInFeed({ context, db, start, feed }: Evidence): Promise<string[]> {
  for (const turn of await turnsSince(db, projectId, start.turnId)) context.turnIds.add(turn.agent_turn_id)
  return [...context.turnIds].filter((turn) => !feed.ends.has(turn))
}

export async function judge(evidence: Evidence): Promise<Judgement> {
  const { context, db, start, feed, project } = evidence
  const { turnIds, taskIds } = context
  const missing = await missingInFeed(evidence)
  const workerTargets = [...Object.values(targets), functionTarget]
  const check = await checkTurns(db, projectId, [...turnIds], workerTargets, start.interventionId)
  const violations = [
    ...check.stuck.map((turn) => `turn ${turn} has not ended`),
    ...check.lost.map((turn) => `turn ${turn} does not have exactly one end and one deliverable`),
    ...(await wrongOutcomes(db, start)),
  ]
  for (const turn of missing) if (!check.stuck.includes(turn)) violations.push(`the feed has no end of turn ${turn}`)
  if (feed.resets > 0) violations.push(`the feed was reset ${feed.resets} times`)
  const overlaps = join(project, overlapsFile)
  if (existsSync(overlaps))
    for (const turn of readFileSync(overlaps, 'utf8').trim().split('\n'))
      violations.push(`two runs of the command of turn ${turn} overlapped`)
  const tasks: Record<string, number> = {}
  for (const taskId of taskIds) {
    const { status, reason } = await readTask(context, taskId).catch((error: unknown) => ({
      status: 'lost',
      reason: errorMessage(error),
    }))
    tasks[status] = (tasks[status] ?? 0) + 1
    if (status !== 'done') violations.push(`task ${taskId} is ${status}: ${reason ?? 'no reason'}`)
  }
  return { check, tasks, violations }
}

async function wrongOutcomes(db: Database, start: Mark): Promise<string[]> {
  const rows = await db.query<{
    agent_turn_id: string
    agent_id: string
    outcome: string
    error: string | null
    deliverable: string | null
  }>({
    text: `select t.agent_turn_id, t.agent_id, t.outcome, t.error, left(c.content::text, 300) as deliverable
      from state.turns t left join cards.cards c on c.card_id = t.deliverable_card_id
      where t.project_id = $1 and t.agent_turn_id > $2 and t.ended_at is not null
        and (t.outcome <> 'success' or t.agent_id = any ($3))`,
    values: [projectId, start.turnId, Object.keys(expectations)],
  })
  return rows
    .filter(({ agent_id: agent, outcome, error }) => {
      const expected = expectations[agent]
      return expected === undefined || outcome === 'success' || !expected.test(error ?? '')
    })
    .map(
      ({ agent_turn_id: turn, agent_id: agent, outcome, error, deliverable }) =>
        `turn ${turn} of ${agent} ended ${outcome}${error === null ? '' : ` (${error})`}: ${deliverable ?? 'no deliverable'}`,
    )
}
