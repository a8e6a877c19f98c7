/** A board on a task root whose turns a real worker with the command executor runs, until it is closed. */
import { systemClock } from '@bellwether/base'
import type { Dispatcher } from '../../src/board/dispatch/dispatcher.js'
import { localEvidence } from '../../src/board/dispatch/evidence/local-evidence.js'
import { openDispatcher } from '../../src/runtime/parts/board/board.js'
import { kernelSpawner } from '../../src/runtime/parts/board/spawner.js'
import { openTaskRoot } from '../../src/runtime/parts/board/task-root.js'
import { loadSettings } from '../../src/settings/load.js'
import type { CommandSpec } from '../../src/worker/executors/command.js'
import { openWorker } from '../../src/worker/worker.js'
import { project, target } from '../support/kernel.js'
import { quietLog } from '../support/quiet-log.js'
import { turnsDone, workerSettings } from '../support/worker.js'
import { until } from '../support/until.js'
import type { CommandSetup } from './command-setup.js'

export interface BoardWorkerOptions {
  readonly root: string
  readonly commandOf: (agentId: string) => Partial<CommandSpec>
  readonly dataDir?: string
}

export async function openBoardWorker(
  { t, executor }: CommandSetup,
  { root, commandOf, dataDir }: BoardWorkerOptions,
): Promise<{ readonly dispatcher: Dispatcher; readonly close: () => Promise<void> }> {
  const settings = loadSettings({ folder: root, env: {} }).board
  const opened = await openTaskRoot({ root, owner: 'test', settings, log: quietLog })
  const dispatcher = openDispatcher(opened, {
    spawner: kernelSpawner({ kernel: t.kernel, projectId: project, clock: systemClock, log: quietLog }),
    evidence: localEvidence(opened.board.root, opened.ids),
    actor: 'test',
    ...(dataDir !== undefined && { dataDir }),
  })
  const worker = openWorker({
    kernel: t.kernel,
    clock: systemClock,
    log: quietLog,
    workerId: 'board-worker',
    workerTarget: target,
    settings: workerSettings,
    agent: ({ agentId }) => executor.agent({ instructions: '', ...commandOf(agentId) }),
    onBeat: (turn, sentMs) => executor.renew(turn, sentMs),
    guarded: (turn) => executor.guards(turn),
  })
  const ended = new AbortController()
  const working = until(
    'the tests have ended',
    async () => {
      await worker.step()
      return ended.signal.aborted || undefined
    },
    1_200_000,
  )
  return {
    dispatcher,
    async close() {
      ended.abort()
      await working
      for (const scope of worker.running.values()) scope.cancellation.cancel('draining')
      await turnsDone(worker)
      await opened.board.close()
    },
  }
}
