/** A worker on a test kernel, without a loop: the test steps it. */
import type { WorkerOptions } from '../../src/worker/scope.js'
import { openWorker, type Worker } from '../../src/worker/worker.js'
import { target, type TestKernel } from './kernel.js'
import { quietLog } from './quiet-log.js'

export const workerSettings = {
  concurrency: 9,
  suspendTimeoutSeconds: 30,
  resumeLeaseSeconds: 30,
  inboxProcessingTimeoutSeconds: 30,
}

export const testWorker = (t: TestKernel, agent: WorkerOptions['agent'], more: Partial<WorkerOptions> = {}): Worker =>
  openWorker({
    kernel: t.kernel,
    clock: t.clock,
    log: quietLog,
    workerId: 'w',
    workerTarget: target,
    settings: workerSettings,
    agent,
    ...more,
  })

/** Resolves when all turns that the worker runs now have ended. */
export async function turnsDone(worker: Worker): Promise<void> {
  await Promise.all([...worker.running.values()].map((scope) => scope.done))
}

/** Claims once and waits for the claimed turns to end. */
export async function runTurns(worker: Worker): Promise<void> {
  await worker.step()
  await turnsDone(worker)
}
