/**
 * Reports each turn and task of a process that starts, ends or needs a person, for the terminal of `up`, and knows which turns run now.
 * It reads the outbox and the board and writes nothing. If it falls too far behind, it continues with the newest events.
 */
import { type Clock, linkAbort, type Log, makeWake } from '@bellwether/base'
import { headStatuses } from '@bellwether/protocol'
import { callLines } from '@bellwether/protocol/call-text'
import { policiesForReading } from '../../board/policies/reading.js'
import { readyRules } from '../../board/dispatch/dispatcher.js'
import type { Follower, Tail } from '../../http/tail.js'
import { readApprovals } from '../../kernel/reads/approvals.js'
import { readEvents, type OutboxEvent } from '../../kernel/verbs/events.js'
import type { Queryable } from '../../ports/database/database.js'
import type { BoardPart } from './shared.js'
import { type Activity, followTasks } from './task-activity.js'

export interface RunningTurn {
  readonly id: string
  readonly agent: string
  readonly sinceMs: number
}

export interface ActivityMonitor {
  /** The turns that a worker runs now, the oldest first. */
  running(): readonly RunningTurn[]
  /** Reads what is left, and ends. */
  stop(): Promise<void>
}

export interface ActivityOptions {
  readonly tail: Pick<Tail, 'follow' | 'now'>
  readonly db: Queryable
  readonly projectId: string
  readonly board: Pick<BoardPart, 'board' | 'as' | 'policies'> | undefined
  readonly clock: Clock
  readonly log: Log
  /** Aborts when the tail stops reading. From then on this monitor polls. */
  readonly signal: AbortSignal
  readonly report: (activity: Activity) => void
}

const [, , runs, waits] = headStatuses
// No tool has a space in its name.
const accountWait = 'account '
const pageMax = 1_000
// Behind by more than this, a person could not read the lines.
const pagesMax = 5
// Lines of one moment appear together.
const pauseMs = 250
// While the process drains.
const pollMs = 500
// Events and changes of the board end the wait.
const quietMs = 60_000
// A call that waits for approval writes no event: while turns are active, this process looks for one. Each look reads an index.
const approvalsPollMs = 1_000
const approvalsMax = 100
// More active turns than a terminal can show. The oldest are forgotten first.
const knownMax = 10_000
interface Known extends RunningTurn {
  isRunning: boolean
}

export async function openActivity(options: ActivityOptions): Promise<ActivityMonitor> {
  const { tail, db, projectId, board, clock, log, signal, report } = options
  const known = new Map<string, Known>()
  const wake = makeWake(clock)
  const over = new AbortController()
  const follower = await tail.follow()
  let cursor = await tail.now()
  const readTasks = followTasks()
  let askedFor: ReadonlySet<string> = new Set()
  let isBoardChanged = false
  const releaseBoard = board?.board.onChange(() => {
    isBoardChanged = true
    wake.now()
  })
  await readBoard(() => undefined)

  /** The turns of other projects are not of this folder. */
  function readEvent({ kind, payload, agent_turn_id: id, project_id: project, created_at: at }: OutboxEvent): void {
    if (id === null || project !== projectId) return
    const agent = String(payload['agent_id'])
    const atMs = new Date(at).getTime()
    const turn = known.get(id)
    const line = { what: 'turn', id, agent } as const
    if (kind === 'task') {
      known.delete(id)
      const { status, error } = payload
      report({
        ...line,
        change: 'ended',
        outcome: String(status),
        ...(turn === undefined ? {} : { elapsedMs: atMs - turn.sinceMs }),
        ...(typeof error === 'string' ? { about: error } : {}),
      })
    } else if (kind === 'state' && payload['status'] === runs) {
      if (turn === undefined) {
        known.set(id, { id, agent, sinceMs: atMs, isRunning: true })
        if (known.size > knownMax) known.delete(known.keys().next().value!)
        report({ ...line, change: 'started' })
      } else turn.isRunning = true
    } else if (kind === 'state' && turn !== undefined) {
      turn.isRunning = false
      const { current_tool: tool } = (payload['metadata'] ?? {}) as Readonly<Record<string, unknown>>
      if (payload['status'] === waits && tool === 'ask_person')
        report({ ...line, change: 'needs_person', about: 'a question' })
      else if (payload['status'] === waits && typeof tool === 'string' && tool.startsWith(accountWait))
        report({ ...line, change: 'parked', about: tool })
    }
  }

  async function readOutbox(): Promise<void> {
    for (let pages = 0; pages < pagesMax; pages += 1) {
      // A tail that has stopped would return what it has cached.
      const events = signal.aborted ? await readEvents(db, cursor, pageMax) : await follower.since(cursor, pageMax)
      events.forEach(readEvent)
      cursor = events.at(-1)?.cursor ?? cursor
      if (events.length < pageMax) return
    }
    await skip()
  }

  async function skip(): Promise<void> {
    known.clear()
    cursor = await tail.now()
  }

  /** Reports each call that waits for approval once. */
  async function readAsked(): Promise<void> {
    if (known.size === 0) return
    const waiting = await readApprovals(db, { projectId, show: 'waiting', limit: approvalsMax })
    for (const {
      approval_id: approval,
      agent_turn_id: id,
      agent_id: agent,
      tool_name: tool,
      arguments: args,
    } of waiting) {
      const about = [tool, callLines(args)[0]?.text ?? []].flat().join(': ')
      if (!askedFor.has(approval)) report({ what: 'turn', id, agent, change: 'needs_approval', about })
    }
    askedFor = new Set(waiting.map(({ approval_id: approval }) => approval))
  }

  async function readBoard(tell: (activity: Activity) => void): Promise<void> {
    if (board === undefined) return
    const { state } = board.board
    const rules = readyRules(board.as('up'), await policiesForReading(board.policies))
    readTasks(state, clock.wallMs(), rules).forEach(tell)
  }

  async function step(): Promise<void> {
    try {
      await readOutbox()
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'cursor_reset') throw error
      await skip()
    }
    await readAsked()
    if (!isBoardChanged) return
    isBoardChanged = false
    await readBoard(report)
  }

  async function run(): Promise<void> {
    while (!over.signal.aborted) {
      const mark = follower.mark()
      try {
        await step()
      } catch (error) {
        log.warn({ err: error }, 'cannot read what turns and tasks do; retrying')
      }
      if (signal.aborted) await wake.wait(pollMs, over.signal)
      else await waitForEvents(follower, mark)
      await clock.sleep(pauseMs, over.signal)
    }
  }

  /** Resolves with the next event of the outbox, change of the board, time to look for calls that wait, or shutdown. */
  async function waitForEvents(events: Follower, mark: number): Promise<void> {
    const wait = linkAbort(signal, over.signal)
    await Promise.race([
      events.next(mark, wait.signal),
      wake.wait(known.size > 0 ? approvalsPollMs : quietMs, wait.signal),
    ])
    wait.abort()
  }

  const running = run()
  return {
    running: () => [...known.values()].filter((turn) => turn.isRunning),
    async stop() {
      over.abort()
      wake.now()
      await running
      follower.stop()
      releaseBoard?.()
      await step().catch((error: unknown) => log.warn({ err: error }, 'cannot read how the last turns ended'))
    },
  }
}
