/**
 * What `task dispatch` does: it runs one task, or the next ready ones, with a local command as the agent. Runs that an earlier dispatcher
 * left open are closed first. The first Ctrl-C stops the running commands and waits for their end; the second exits at once.
 */
import { systemClock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { runAutopilot } from '../../../board/dispatch/autopilot.js'
import { writeCaches } from '../../../board/dispatch/caches.js'
import { commandSpawner } from '../../../board/dispatch/command-spawner.js'
import type { Dispatcher } from '../../../board/dispatch/dispatcher.js'
import { dispatch } from '../../../board/dispatch/dispatch.js'
import { localEvidence } from '../../../board/dispatch/evidence/local-evidence.js'
import { mergeQueued } from '../../../board/dispatch/merge.js'
import { reconcileAll } from '../../../board/dispatch/reconcile.js'
import { sweepWorktrees } from '../../../board/dispatch/workspace.js'
import { openRuns } from '../../../board/tasks/open-runs.js'
import type { DispatchReport } from '@bellwether/protocol/http'
import type { Client } from '../../../client/client.js'
import { plain } from '../../../client/sanitize.js'
import { systemMachine } from '../../../ports/disk/machine.js'
import { openDispatcher } from '../../../runtime/parts/board/board.js'
import { exitCodes, print as printResult } from '../../shared/output.js'
import { checksOf } from './checks.js'
import { boardServer, onRoot, whoAmI, type CommonFlags, type Opened } from './root.js'

export interface DispatchFlags extends CommonFlags {
  readonly command?: string
  readonly timeout: number
  readonly env?: string[]
  readonly max?: number
}

export async function runDispatch(id: string | undefined, flags: DispatchFlags): Promise<number> {
  const server = await boardServer(flags)
  if (server !== undefined) return onServer(server, id, flags)
  if (flags.command === undefined) {
    throw new InvalidInput("Cannot dispatch without --command 'CMD': no server runs the turn here.", {
      code: 'missing_option',
      hint: "For example --command 'claude -p --output-format json', or your own script. `bellwether task autopilot` runs tasks as turns.",
    })
  }
  if (id !== undefined && flags.max !== undefined) {
    throw new InvalidInput('--max and a task id cannot be combined.', {
      code: 'contradicting_options',
      hint: 'Omit one of them.',
    })
  }
  const { command } = flags
  return onRoot(flags, 'write', async (opened) => {
    const dispatcher = commandDispatcher(opened, command, flags)
    const { signal, end } = onInterrupt(dispatcher)
    try {
      await settleLeftovers(dispatcher)
      return await (id === undefined
        ? dispatchReady(dispatcher, opened, flags, signal)
        : dispatchOne(dispatcher, opened, id, flags, signal))
    } finally {
      end()
    }
  })
}

/** The agents of the server run the turn, which may continue after the response. */
async function onServer(server: Client, id: string | undefined, flags: DispatchFlags): Promise<number> {
  if (flags.command !== undefined || flags.env !== undefined) {
    throw new InvalidInput(
      '--command and --env cannot be combined with --server: the agents of the server run its tasks.',
      { code: 'contradicting_options', hint: 'Omit --server to use local files.' },
    )
  }
  // The server responds within 50 seconds, even if the turn is still running.
  const timeoutMs = 75_000
  if (id === undefined) {
    const body = { maxSteps: flags.max ?? 1 }
    const run = await server.ask('POST /board/autopilot', { body, timeoutMs })
    printResult(flags, run, () => [...run.reports.map(reportText), `ended: ${plain(run.stoppedBecause)}`].join('\n'))
    return codeOf(run.reports)
  }
  const report = await server.ask('POST /board/tasks/:task/dispatch', { params: { task: id }, timeoutMs })
  printResult(flags, report, () => reportText(report))
  return codeOf([report])
}

function commandDispatcher(opened: Opened, command: string, flags: DispatchFlags): Dispatcher {
  const { board, ids, log } = opened
  const spawner = commandSpawner({
    root: board.root,
    command,
    timeoutMs: flags.timeout * 1_000,
    environment: flags.env ?? [],
    disk: opened.disk,
    machine: systemMachine,
    clock: systemClock,
    ids,
    log,
  })
  const evidence = localEvidence(board.root, ids)
  return openDispatcher(opened, { spawner, evidence, actor: whoAmI(flags), sandbox: checksOf(opened) })
}

async function dispatchOne(
  dispatcher: Dispatcher,
  opened: Opened,
  id: string,
  flags: DispatchFlags,
  signal: AbortSignal,
): Promise<number> {
  const report = await dispatch(dispatcher, id, signal)
  await writeCaches(dispatcher.board, opened.caches)
  printResult(flags, { ...report }, () => reportText(report))
  return codeOf([report])
}

async function dispatchReady(
  dispatcher: Dispatcher,
  opened: Opened,
  flags: DispatchFlags,
  signal: AbortSignal,
): Promise<number> {
  const { reports, stoppedBecause } = await runAutopilot(dispatcher, opened.caches, {
    maxSteps: flags.max ?? 1,
    signal,
  })
  printResult(flags, { reports, stoppedBecause }, () =>
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
  if (knowledge !== null && knowledge.degradeReason !== null)
    lines.push(`  ${knowledge.degraded ? 'no hints' : 'hints incomplete'}: ${knowledge.degradeReason}`)
  return lines.map(plain).join('\n')
}

/** Closes the runs of a dispatcher that died, merges what it accepted, and removes the worktrees that it left. */
async function settleLeftovers(dispatcher: Dispatcher): Promise<void> {
  await dispatcher.board.sync()
  const nowMs = dispatcher.clock.wallMs()
  for (const { runId, run } of openRuns(dispatcher.board.state)) {
    // This process ends too soon to observe the run for a minute: use the time of the intent line instead.
    const ageMs = nowMs - Date.parse(run.startedAt)
    if (ageMs > dispatcher.settings.spawnGraceMs)
      dispatcher.seenSince.set(`${runId}:unknown`, dispatcher.clock.monotonicMs() - ageMs)
  }
  const policies = await dispatcher.policies()
  await reconcileAll(dispatcher, policies)
  await mergeQueued(dispatcher, policies)
  await sweepWorktrees(dispatcher)
}

function onInterrupt(dispatcher: Dispatcher): { readonly signal: AbortSignal; readonly end: () => void } {
  const stop = new AbortController()
  let isStopping = false
  const interrupt = () => {
    if (isStopping) process.exit(130)
    isStopping = true
    process.stderr.write('stopping the running commands; press Ctrl-C again to exit at once\n')
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
