/**
 * Test set-up: a worker with a command executor in this process, on a real kernel. Tests call its steps and beats; programs and
 * guardian are real processes. `close` kills everything that a test left running.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Log, systemClock } from '@bellwether/base'
import type { NewTurn } from '../../src/kernel/verbs/turn/enqueue.js'
import { killTree } from '../../src/ports/processes/kill-tree.js'
import { openGuardian, type Guardian } from '../../src/ports/processes/guardian.js'
import { readProcesses, readSelf } from '../../src/ports/processes/proc.js'
import { openCommandExecutor, type CommandExecutor, type CommandSpec } from '../../src/worker/executors/command.js'
import type { WorkerOptions } from '../../src/worker/scope.js'
import { openWorker, type Worker } from '../../src/worker/worker.js'
import { project, target, testKernel, type TestKernel } from '../support/kernel.js'
import { eventsOf, type InboxRow, turnRow } from '../support/kernel-rows.js'
import { testFolder } from '../support/postgres.js'
import { programOfModule } from '../support/process.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'
import { turnsDone } from '../support/worker.js'

export const guardianProgram = programOfModule('ports/processes/guardian-main')
export const fake = (name: string) => fileURLToPath(new URL(`./fakes/${name}.mjs`, import.meta.url))

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
    more?: Partial<NewTurn>,
    afterClaim?: (agentTurnId: string) => Promise<void>,
    fault?: { readonly dieBeforeDelivery: true },
  ): Promise<string>
  write(name: string, text: string): Promise<void>
  /** Begins, and waits for the end. */
  run(spec: Partial<CommandSpec>, more?: Partial<NewTurn>): Promise<Ended>
  ended(agentTurnId: string): Promise<Ended>
  close(): Promise<void>
}

export interface Ended extends InboxRow {
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
}

export async function openCommandSetup({
  ttlMs = 60_000,
  graceMs = 200,
  log = quietLog,
  installation = 'bench',
  program = guardianProgram,
}: CommandSetupOptions = {}): Promise<CommandSetup> {
  const t = await testKernel({ time: 'real' })
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
    onChunk: (_turn, _stream, text) => void (chunks.length < 1_000 && chunks.push(text)),
  })
  const specs = new Map<string, CommandSpec>()
  const options: WorkerOptions = {
    kernel: t.kernel,
    clock: systemClock,
    log,
    workerId: 'bench',
    workerTarget: target,
    settings: { concurrency: 16, suspendTimeoutSeconds: 30, resumeLeaseSeconds: 30, inboxProcessingTimeoutSeconds: 30 },
    agent: (turn) => executor.agent(specs.get(turn.agentId)!),
    onBeat: (turn, askedMs) => executor.renew(turn, askedMs),
    guarded: (turn) => executor.guards(turn),
  }
  const worker = openWorker(options)
  // Dead processes run no `finally`: its delivery never comes back.
  const mortal = openWorker({
    ...options,
    workerId: 'mortal',
    kernel: { ...t.kernel, deliver: () => new Promise(() => undefined) },
  })
  const turns: string[] = []

  const begin: CommandSetup['begin'] = async (spec, more = {}, afterClaim, fault) => {
    const agentId = `agent-${turns.length + 1}`
    specs.set(agentId, { instructions: '', ...spec })
    await t.agents(agentId)
    const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId, instruction: 'do it', ...more })
    turns.push(agentTurnId)
    if (fault !== undefined) await mortal.step()
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
    write: (name, text) => writeFile(join(folder, name), text),
    ended,
    run: async (spec, more) => ended(await begin(spec, more)),
    async close() {
      for (const scope of worker.running.values()) scope.cancellation.cancel('draining')
      await turnsDone(worker)
      guardian.close()
      const wanted = (token: string) => turns.some((turn) => token.includes(turn))
      await killTree({ clock: systemClock, graceMs: 0, wanted })
      await t.drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
