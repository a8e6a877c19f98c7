/**
 * `task dispatch`: one task, or those that come first, done by a local command as the agent. Runs that an earlier dispatcher
 * left open are settled first. The first Ctrl-C stops what runs and waits for its end; the second does not wait.
 */
import { systemClock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Command } from 'commander'
import { runAutopilot } from '../../board/dispatch/autopilot.js'
import { writeCaches } from '../../board/dispatch/caches.js'
import { commandSpawner } from '../../board/dispatch/command-spawner.js'
import type { Dispatcher } from '../../board/dispatch/dispatcher.js'
import { dispatch } from '../../board/dispatch/dispatch.js'
import { localEvidence } from '../../board/dispatch/local-evidence.js'
import { reconcileAll } from '../../board/dispatch/reconcile.js'
import { openRuns } from '../../board/tasks/open-runs.js'
import type { DispatchReport } from '../../board/dispatch/report.js'
import type { Client } from '../../client/client.js'
import { plain } from '../../client/sanitize.js'
import { systemDisk } from '../../ports/disk/disk.js'
import { systemMachine } from '../../ports/disk/machine.js'
import { openDispatcher } from '../../runtime/parts/board.js'
import { collect } from '../options.js'
import { exitCodes, print as answer } from '../output.js'
import { wholeNumber } from './queries.js'
import { boardServer, onRoot, whoAmI, withCommon, type CommonFlags, type Opened } from './root.js'

interface Flags extends CommonFlags {
  readonly command?: string
  readonly timeout: number
  readonly env?: string[]
  readonly max?: number
}

export function dispatchCommand(task: Command, finish: (code: number) => void): void {
  withCommon(task.command('dispatch [id]'))
    .description('let a local command do a task: this one, or the one that comes first')
    .option('--command <cmd>', 'the agent: it gets the prompt on stdin and answers on stdout')
    .option('--timeout <seconds>', 'the longest that one run may take', wholeNumber, 1_200)
    .option('--env <name>', 'an environment variable that it may see; may be repeated', collect)
    .option('--max <n>', 'without an id: at most so many tasks (default 1)', wholeNumber)
    .action(async (id: string | undefined, flags: Flags) => {
      const server = boardServer(flags)
      if (server !== undefined) return finish(await onServer(server, id, flags))
      if (flags.command === undefined) {
        throw new InvalidInput("dispatch needs --command 'CMD': there is no house here that would run the turn", {
          code: 'missing_option',
          hint: "for example: --command 'claude -p --output-format json', or any script of yours; `bellwether task autopilot` runs tasks as turns",
        })
      }
      if (id !== undefined && flags.max !== undefined) {
        throw new InvalidInput('--max is for a dispatch without an id', { code: 'contradicting_options' })
      }
      const { command } = flags
      return onRoot(flags, 'look', async (opened) => {
        const dispatcher = commandDispatcher(opened, command, flags)
        const { signal, end } = onInterrupt(dispatcher)
        try {
          await settleLeftovers(dispatcher)
          finish(
            await (id === undefined
              ? dispatchReady(dispatcher, opened, flags, signal)
              : dispatchOne(dispatcher, opened, id, flags, signal)),
          )
        } finally {
          end()
        }
      })
    })
}

/** A server has agents of its own: the turn is theirs, and goes on when the answer comes before its end. */
async function onServer(server: Client, id: string | undefined, flags: Flags): Promise<number> {
  if (flags.command !== undefined || flags.env !== undefined) {
    throw new InvalidInput('--command is for a board of files: the agents of the server do its tasks', {
      code: 'contradicting_options',
    })
  }
  // The server answers within 50 seconds, whatever becomes of the turn.
  const timeoutMs = 75_000
  if (id === undefined) {
    const body = { maxSteps: flags.max ?? 1 }
    const run = await server.ask<Run>('POST', '/board/autopilot', { body, timeoutMs })
    answer(flags, run, () => [...run.reports.map(reportText), `ended: ${plain(run.stoppedBecause)}`].join('\n'))
    return codeOf(run.reports)
  }
  const path = `/board/tasks/${encodeURIComponent(id)}/dispatch`
  const report = await server.ask<DispatchReport>('POST', path, { body: {}, timeoutMs })
  answer(flags, report, () => reportText(report))
  return codeOf([report])
}

interface Run {
  readonly reports: readonly DispatchReport[]
  readonly stoppedBecause: string
}

function commandDispatcher(opened: Opened, command: string, flags: Flags): Dispatcher {
  const { board, ids, log } = opened
  const spawner = commandSpawner({
    root: board.root,
    command,
    timeoutMs: flags.timeout * 1_000,
    environment: flags.env ?? [],
    disk: systemDisk,
    machine: systemMachine,
    clock: systemClock,
    ids,
    log,
  })
  return openDispatcher(opened, { spawner, evidence: localEvidence(board.root, ids), actor: whoAmI(flags) })
}

async function dispatchOne(
  dispatcher: Dispatcher,
  opened: Opened,
  id: string,
  flags: Flags,
  signal: AbortSignal,
): Promise<number> {
  const report = await dispatch(dispatcher, id, signal)
  await writeCaches(dispatcher.board, opened.caches)
  answer(flags, { ...report }, () => reportText(report))
  return codeOf([report])
}

async function dispatchReady(
  dispatcher: Dispatcher,
  opened: Opened,
  flags: Flags,
  signal: AbortSignal,
): Promise<number> {
  const { reports, stoppedBecause } = await runAutopilot(dispatcher, opened.caches, {
    maxSteps: flags.max ?? 1,
    signal,
  })
  answer(flags, { reports, stoppedBecause }, () =>
    [
      ...reports.map((report) => `${reportText(report)}\n  chosen because ${plain(report.choice?.because ?? '')}`),
      `ended: ${plain(stoppedBecause)}`,
    ].join('\n'),
  )
  return codeOf(reports)
}

const codeOf = (reports: readonly DispatchReport[]) =>
  reports.every(({ status }) => status === 'done' || status === 'review') ? exitCodes.ok : exitCodes.failure

function reportText({ taskId, status, reason, spawn, knowledge }: DispatchReport): string {
  const lines = [`${taskId} is ${status}${reason === null ? '' : ` (${reason})`}`]
  if (spawn !== null) {
    const { agent, metrics, error, nextAssignee, action, cooldownUntil } = spawn
    lines.push(`  ${agent}: ${metrics.tokenUsage} tokens, ${metrics.elapsedMs} ms${error === null ? '' : `; ${error}`}`)
    if (nextAssignee !== null)
      lines.push(
        `  next: ${nextAssignee} (${action ?? ''})${cooldownUntil === null ? '' : `, not before ${cooldownUntil}`}`,
      )
  }
  if (knowledge?.degraded === true) lines.push(`  without all hints: ${knowledge.degradeReason ?? ''}`)
  return lines.map(plain).join('\n')
}

/** What a dispatcher that died has left: its command may have gone on without it, and ended meanwhile. */
async function settleLeftovers(dispatcher: Dispatcher): Promise<void> {
  await dispatcher.board.sync()
  const nowMs = dispatcher.clock.wallMs()
  for (const { runId, run } of openRuns(dispatcher.board.state)) {
    // A command that lives for one dispatch cannot watch for a minute; here the hour of the intent line must do.
    const ageMs = nowMs - Date.parse(run.startedAt)
    if (ageMs > dispatcher.settings.spawnGraceMs)
      dispatcher.seenSince.set(`${runId}:unknown`, dispatcher.clock.monotonicMs() - ageMs)
  }
  await reconcileAll(dispatcher, await dispatcher.policies())
}

function onInterrupt(dispatcher: Dispatcher): { readonly signal: AbortSignal; readonly end: () => void } {
  const stop = new AbortController()
  let told = false
  const interrupt = () => {
    if (told) process.exit(130)
    told = true
    process.stderr.write('stopping what runs; once more to leave at once\n')
    for (const { runId } of openRuns(dispatcher.board.state)) {
      dispatcher.spawner
        .stop(runId, 'interrupted')
        .catch((error: unknown) => process.stderr.write(`${String(error)}\n`))
    }
  }
  const names = ['SIGINT', 'SIGTERM'] as const
  for (const name of names) process.on(name, interrupt)
  return { signal: stop.signal, end: () => names.forEach((name) => process.off(name, interrupt)) }
}
