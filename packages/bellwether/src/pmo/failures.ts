/**
 * Stores a message to people for turns that failed and are not tried again: by themselves, by their budget, or ended by a watchdog. The
 * board announces the failures of tasks itself. It follows the outbox; the position moves in the transaction that stores the messages, so
 * that no failure is skipped and none is announced twice. An agent that keeps failing for the same kind of reason is announced once per
 * hour.
 */
import type { Log } from '@bellwether/base'
import { budgetExceeded, reasonInWords, Terminal } from '@bellwether/protocol'
import {
  moveCursor,
  oldestCursor,
  openCursor,
  readCursor,
  readFailures,
  type FailedTurn,
  type FailurePage,
} from '../kernel/verbs/events.js'
import { putNotices, type NewNotice } from '../kernel/verbs/notices.js'
import type { Database } from '../ports/database/database.js'

export interface FailuresOptions {
  readonly db: Database
  /** The names of the channels. */
  readonly channels: readonly string[]
  readonly log: Log
}

export interface Failures {
  /** Stores a message per failure since the last step. `quiet`: there was no new event. */
  step(): Promise<'quiet' | 'busy'>
}

const name = 'failures'
// Rows of the outbox that one statement looks at: about 20 ms.
const pageMax = 2_000
const textMax = 300
/** The errors with which watchdogs end turns that failed (kernel/verbs/watchdog/overdue.sql). */
const watchdogErrors: ReadonlySet<string> = new Set([
  'timeout_reaped_by_watchdog',
  'max_deaths',
  'suspended_unresumable',
])

/** A new installation begins with the failures after this call. */
export async function openFailures({ db, channels, log }: FailuresOptions): Promise<Failures> {
  await openCursor(db, name)

  async function page(): Promise<FailurePage | undefined> {
    try {
      return await readFailures(db, name, pageMax)
    } catch (error) {
      if (!(error instanceof Terminal && error.code === 'cursor_reset')) throw error
      const from = (await readCursor(db, name)) ?? ''
      log.error({ err: error, cursor: from }, 'events were removed by retention before failures were announced')
      return { cursor_from: from, cursor_to: await oldestCursor(db), failures: [] }
    }
  }

  return {
    async step() {
      for (let result: 'quiet' | 'busy' = 'quiet'; ; result = 'busy') {
        const next = await page()
        if (next === undefined) return result
        const { cursor_from: from, cursor_to: to, failures } = next
        await db.transaction(async (tx) => {
          // Another PMO was faster: it has stored the messages of this page.
          if (await moveCursor(tx, name, from, to)) await putNotices(tx, failures.map(failureNotice), channels)
        })
      }
    },
  }
}

const kinds = {
  turn_failed: (agent: string, why: string) => `A turn of ${agent} failed${why}`,
  budget_exceeded: (agent: string) => `A turn of ${agent} exceeded its budget`,
  watchdog: (agent: string, why: string) => `The watchdog ended a turn of ${agent}${why}`,
} as const

function failureNotice({ payload, project_id: projectId, agent_turn_id: turn, created_at: at }: FailedTurn): NewNotice {
  const { status, error, agent_id: agent } = payload as Readonly<Record<string, unknown>>
  const reason = typeof error === 'string' ? error : undefined
  const what =
    reason === budgetExceeded
      ? 'budget_exceeded'
      : status === 'timeout' || watchdogErrors.has(reason ?? '')
        ? 'watchdog'
        : 'turn_failed'
  const text = kinds[what](String(agent), reason === undefined ? '' : `: ${reasonInWords(reason).slice(0, textMax)}`)
  const path = `/p/${projectId}/turns/${encodeURIComponent(String(turn))}`
  // The hour of the event, not of the reader: every PMO makes the same id.
  const hour = new Date(at).toISOString().slice(0, 13)
  const noticeId = `${what} ${projectId} ${String(agent)} ${hour}`
  return { noticeId, kind: what, projectId, content: { text, agent, turn, path } }
}
