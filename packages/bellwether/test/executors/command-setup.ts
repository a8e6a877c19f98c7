/**
 * Test set-up: a worker with a command executor in this process, on a real kernel. Tests call its steps and beats; programs and
 * guardian are real processes. `close` kills everything that a test left running.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { defined, type Log, systemClock, systemRandom } from '@bellwether/base'
import type { Kernel } from '../../src/kernel/kernel.js'
import { reclaim } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { killTree } from '../../src/ports/processes/kill-tree.js'
import { openGuardian, type Guardian } from '../../src/ports/processes/guardian.js'
import { readProcesses, readSelf } from '../../src/ports/processes/proc.js'
import type { RunAs } from '../../src/ports/processes/run-as.js'
import type { Sandbox } from '../../src/ports/processes/sandbox/sandbox.js'
import { openApprovals } from '../../src/worker/executors/approvals/socket.js'
import { openCommandExecutor, type CommandExecutor, type CommandSpec } from '../../src/worker/executors/command.js'
import type { WorkerOptions } from '../../src/worker/scope.js'
import { openTranscriptWriter } from '../../src/worker/transcript.js'
import { openWorker, type Worker } from '../../src/worker/worker.js'
import { project, target, testKernel, type TestKernel } from '../support/kernel.js'
import { fullWatchWindow } from '../support/kernel-turns.js'
import { eventsOf, type InboxRow, turnRow } from '../support/kernel-rows.js'
import { testFolder } from '../support/postgres.js'
import { programOfModule } from '../support/process.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'
import { differingReplays } from '../support/replays.js'
import { turnsDone } from '../support/worker.js'
import type { TurnOptions } from './model/model-setup.js'

export const guardianProgram = programOfModule('ports/processes/guardian-main')

export interface CommandSetup {
  readonly t: TestKernel
  readonly folder: string
  readonly guardian: Guardian
  readonly executor: CommandExecutor
  readonly worker: Worker
  readonly chunks: string[]
  /** A turn of a new agent that does its turns this way, started; answers its id. */
  begin(
    spec: Partial<CommandSpec>,
    more?: TurnOptions,
    afterClaim?: (agentTurnId: string) => Promise<void>,
    on?: Worker,
  ): Promise<string>
  /** A worker of its own, whose kernel is as given: to die at a place of one's choice. */
  mortal(kernel: Partial<Kernel>): Worker
  /** What a silent worker held is free for others. */
  reclaimed(): Promise<void>
  write(name: string, text: string): Promise<void>
  /** Begins, and waits for the end. */
  run(spec: Partial<CommandSpec>, more?: TurnOptions): Promise<Ended>
  ended(agentTurnId: string): Promise<Ended>
  close(): Promise<void>
}

interface Ended extends InboxRow {
  readonly text: string
  readonly fields: unknown
  readonly steps: readonly { readonly status: string; readonly metadata: Record<string, unknown> }[]
  readonly taskEvents: number
}

/** The processes of a turn that live, by its token. */
export const carriers = (agentTurnId: string) =>
  readProcesses().filter((one) => one.token?.includes(agentTurnId) ?? false)

/**
 * Whether the turn has processes and all of them are stopped, or, with `false`, all of them run. A shell that is frozen while its child
 * is between vfork and exec stays blocked instead of stopped, and has no effects either.
 */
export function areStopped(agentTurnId: string, stopped: boolean): boolean {
  const all = carriers(agentTurnId)
  return all.length > 0 && all.every((one) => one.blocked || one.stopped === stopped)
}

export interface CommandSetupOptions {
  readonly ttlMs?: number
  readonly graceMs?: number
  readonly log?: Log
  readonly installation?: string
  readonly program?: readonly string[]
  readonly sandbox?: (folder: string) => Sandbox
  readonly runAs?: RunAs
  readonly firstEventMs?: number
  readonly concurrency?: number
}

export async function openCommandSetup({
  ttlMs = 60_000,
  graceMs = 200,
  log = quietLog,
  installation = 'bench',
  program = guardianProgram,
  sandbox,
  runAs,
  firstEventMs,
  concurrency = 16,
}: CommandSetupOptions = {}): Promise<CommandSetup> {
  const t = await testKernel({ time: 'real', isReused: true })
  const folder = await testFolder()
  await mkdir(join(folder, 'work'))
  const guardian = openGuardian({ clock: systemClock, log, ttlMs, graceMs, program })
  const chunks: string[] = []
  const executor = openCommandExecutor({
    clock: systemClock,
    log,
    guardian,
    root: folder,
    installation,
    self: readSelf(),
    graceMs,
    sandbox: sandbox?.(folder),
    runAs,
    ...defined({ firstEventMs }),
    approvals: openApprovals({ kernel: t.kernel, clock: systemClock, log, random: systemRandom }),
    onChunk: (_turn, _stream, text) => void (chunks.length < 1_000 && chunks.push(text)),
  })
  const specs = new Map<string, CommandSpec>()
  const options: WorkerOptions = {
    kernel: t.kernel,
    clock: systemClock,
    log,
    workerId: 'bench',
    workerTarget: target,
    settings: { concurrency, suspendTimeoutSeconds: 30, resumeLeaseSeconds: 30, inboxProcessingTimeoutSeconds: 30 },
    agent: (turn) => executor.agent(specs.get(turn.agentId)!),
    onBeat: (turn, sentMs) => executor.renew(turn, sentMs),
    guarded: (turn) => executor.guards(turn),
    transcript: openTranscriptWriter({
      kernel: t.kernel,
      clock: systemClock,
      log,
      random: systemRandom,
      maxBytes: 65_536,
    }),
  }
  const worker = openWorker(options)
  let mortals = 0
  const mortal = (kernel: Partial<Kernel>) =>
    openWorker({ ...options, workerId: `mortal-${(mortals += 1)}`, kernel: { ...t.kernel, ...kernel } })
  const turns: string[] = []

  const begin: CommandSetup['begin'] = async (spec, { memory, ...more } = {}, afterClaim, on) => {
    const agentId = more.agentId ?? `agent-${turns.length + 1}`
    specs.set(agentId, { instructions: '', ...spec })
    await t.kernel.putAgents([{ projectId: project, agentId, workerTarget: target, ...defined({ memory }) }])
    const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId, instruction: 'do it', ...more })
    turns.push(agentTurnId)
    if (on !== undefined) await on.step()
    else if (afterClaim === undefined) await worker.step()
    else {
      const claimant = { workerTarget: target, workerId: 'bench', max: 1, resumeLeaseSeconds: 30 }
      const claimed = await t.kernel.claim(claimant)
      await afterClaim(agentTurnId)
      worker.start(claimed.turns)
      await worker.running.get(agentTurnId)?.done
    }
    return agentTurnId
  }

  async function ended(agentTurnId: string): Promise<Ended> {
    const row = await until(
      'the turn has ended',
      async () => {
        const now = await turnRow(t, agentTurnId)
        return now.ended_at === null ? undefined : now
      },
      20_000,
    )
    const card = row.deliverable_card_id === null ? undefined : await t.kernel.readCard(row.deliverable_card_id)
    const content = (card?.content ?? {}) as { text?: string; fields?: unknown }
    return {
      ...row,
      text: content.text ?? '',
      fields: content.fields,
      steps: await t.all('select status, metadata from state.agent_steps where agent_turn_id = $1', agentTurnId),
      taskEvents: (await eventsOf(t, agentTurnId, 'task')).length,
    }
  }

  return {
    t,
    folder,
    guardian,
    executor,
    worker,
    chunks,
    begin,
    mortal,
    async reclaimed() {
      await t.advance(60)
      await t.kernel.ring(await reclaim(t.db, target, 30, 3, fullWatchWindow))
    },
    write: (name, text) => writeFile(join(folder, name), text),
    ended,
    run: async (spec, more) => ended(await begin(spec, more)),
    async close() {
      for (const scope of worker.running.values()) scope.cancellation.cancel('draining')
      await turnsDone(worker)
      guardian.close()
      const wanted = (token: string) => turns.some((turn) => token.includes(turn))
      await killTree({ clock: systemClock, graceMs: 0, wanted })
      const differing = await differingReplays(t.db)
      await t.drop()
      expect(differing).toEqual([])
      await rm(folder, { recursive: true, force: true })
    },
  }
}
