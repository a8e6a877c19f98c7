import { beforeEach, expect } from 'vitest'
import type { EvalCaseDetail, EvalRun } from '@bellwether/protocol/http'
import { openEvalDriver, type EvalDriver, type EvalDriverOptions } from '../../src/evals/driver.js'
import { readSuiteFile } from '../../src/evals/suite-file.js'
import { putSuite } from '../../src/kernel/verbs/evals/suites.js'
import { agentFunction } from '../../src/worker/agent.js'
import { serverPerFile } from '../http/test-server.js'
import { join } from '../support/forks.js'
import { project, target } from '../support/kernel.js'
import { quietLog } from '../support/quiet-log.js'
import { runTurns, testWorker } from '../support/worker.js'

/** What tests of evaluations share: a server, a worker with three functions, and a driver that the test steps. */
export const server = serverPerFile()
export const p = `/projects/${project}`
const origin = 'host:/project'
/** The agents whose turns ran in this test. */
export const ran: string[] = []

const textOf = (turn: { readonly context: readonly { readonly content: unknown }[] }) =>
  turn.context.map(({ content }) => (content as { text?: string }).text ?? '').join(' ')

/** `good` repeats its instruction, `bad` says no, `judge` passes an answer without "no". */
const agents = (agentId: string, text: string) => {
  if (agentId.startsWith('judge')) {
    const pass = !/<answer>\nno\n/.test(text)
    return {
      fields: [
        { name: 'pass', value: pass },
        { name: 'reason', value: pass ? 'polite' : 'a bare no' },
      ],
    }
  }
  return { text: agentId.startsWith('bad') ? 'no' : `yes: ${text}` }
}

export let worker: ReturnType<typeof testWorker>
beforeEach(async () => {
  ran.length = 0
  const { t } = server
  await t.kernel.putAgents(
    ['good', 'bad', 'judge'].map((agentId) => ({ projectId: project, agentId, workerTarget: target })),
  )
  worker ??= testWorker(t, () =>
    agentFunction(async (turn) => {
      const hydrated = await turn.hydrate()
      ran.push(turn.turn.agentId)
      return { deliver: agents(turn.turn.agentId, textOf(hydrated)) }
    }),
  )
})

export async function suite(name: string, text: string, texts: Readonly<Record<string, string>> = {}): Promise<void> {
  const read = readSuiteFile(`evals/${name}.toml`, text, (path) =>
    texts[path] === undefined ? { problem: 'the file does not exist' } : { text: texts[path] },
  )
  const version = 'definition' in read ? read : { problem: read.problems.join('; ') }
  await putSuite(server.t.db, { projectId: project, suite: name }, { origin, read: version })
}

export const driver = (more: Partial<EvalDriverOptions> = {}): EvalDriver =>
  openEvalDriver({
    kernel: server.t.kernel,
    projectId: project,
    origin,
    log: quietLog,
    isTrusted: () => true,
    runCheck: async ({ command }) => ({ passed: command === 'true', reason: `ran ${String(command)}` }),
    ...more,
  })

/** Steps driver, batches and worker until no run is open. */
export async function settle(drive = driver(), steps = 60): Promise<void> {
  for (let step = 0; step < steps; step += 1) {
    if ((await drive.step()) === 'quiet') return
    await join(server.t)
    await runTurns(worker)
    await join(server.t)
  }
  throw new Error('the run did not end')
}

export const start = async (name: string, body: object = {}) => {
  const { status, body: run } = await server.post(`${p}/evals/${name}/runs`, body)
  expect([status, run.code]).toEqual([202, undefined])
  return (run as { run_id: string }).run_id
}
export const show = async (run: string, query = '') =>
  (await server.get(`${p}/eval-runs/${run}${query}`)).body as never as EvalRun
export const caseOf = async (run: string, number: number) =>
  (await server.get(`${p}/eval-runs/${run}/results/${number}`)).body as never as EvalCaseDetail

export const two = `
[[variants]]
agent = "good"
[[variants]]
agent = "bad"
[[checks]]
contains = "yes"
[[cases]]
name = "refund"
instruction = "How do refunds work?"
[[cases]]
name = "greeting"
instruction = "Say hello."
`
