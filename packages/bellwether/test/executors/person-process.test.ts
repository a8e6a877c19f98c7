import { expect, it } from 'vitest'
import { openQuestions, type OpenQuestion } from '../support/agents/questions.js'
import type { Cli } from '../support/process.js'
import { until } from '../support/until.js'
import { openWorkerProcesses, project, type WorkerProcesses } from './worker-processes.js'

const people = (more: string) => `---\nexecutor: person\npeople: [alice, bob]\n${more}\n---\nYou decide on releases.\n`
// The shortest wait that a worker keeps is its own suspend timeout.
const settings = '[worker]\nsuspend_timeout_seconds = 1\n'

const asked = (
  processes: WorkerProcesses,
  turn: string,
  to: string,
  more: (question: OpenQuestion) => boolean = () => true,
) =>
  until(
    `${to} is asked`,
    async () =>
      (await openQuestions(processes.kernel.db, project, to)).find((one) => one.agent_turn_id === turn && more(one)),
    20_000,
  )
const answer = (processes: WorkerProcesses, question: Pick<OpenQuestion, 'tool_call_id'>, result: unknown) =>
  processes.kernel.report([{ projectId: project, toolCallId: question.tool_call_id, status: 'success', result }])
const kill = async (worker: Cli) => {
  worker.signal('SIGKILL')
  await worker.ended
}
const asks = (processes: WorkerProcesses, turn: string) =>
  processes.kernel.db.query<{ to: string; tool_call_id: string }>({
    text: `select content -> 'arguments' ->> 'to' as "to", content ->> 'tool_call_id' as tool_call_id from cards.cards
      where type = 'tool.call' and metadata ->> 'agent_turn_id' = $1 order by card_id`,
    values: [turn],
  })
/** A question that was asked, and may have been open for a second only. */
const wasAsked = (processes: WorkerProcesses, turn: string, to: string) =>
  until(`${to} was asked`, async () => (await asks(processes, turn)).find((one) => one.to === to))

it.concurrent('[T8.1] [T1.6] workers killed with SIGKILL while a question is open lose no answer and repeat no question', async ({
  onTestFinished,
}) => {
  const processes = await openWorkerProcesses({ boss: people('choices: [yes, no]') })
  onTestFinished(() => processes.stop())
  const first = await processes.add('worker')
  const turn = await processes.begin('boss')
  const question = await asked(processes, turn, 'alice')
  expect(question.arguments).toMatchObject({ question: 'do it', instructions: 'You decide on releases.' })
  // The file's turns have room for two people and a day for each.
  expect(question.deadline!.getTime() - question.asked_at.getTime()).toBeCloseTo(86_400_000, -4)
  await kill(first)

  // No worker runs: the answer waits in the inbox.
  expect(await answer(processes, question, 'perhaps')).toEqual(['reported'])
  const second = await processes.add('worker')
  const again = await asked(processes, turn, 'alice', (one) => 'refused' in one.arguments)
  expect(again.arguments['refused']).toBe('the answer must be one of: yes, no')
  await kill(second)

  await answer(processes, again, 'no')
  await processes.add('worker')
  expect(await processes.ended(turn)).toMatchObject({ outcome: 'success', text: 'no', task_events: 1 })
  expect((await asks(processes, turn)).map(({ to }) => to)).toEqual(['alice', 'alice'])
})

it.concurrent('[W5.1] people who are silent are followed by the next, then by an agent, also when workers are killed in between', async ({
  onTestFinished,
}) => {
  const processes = await openWorkerProcesses({
    boss: people('answer_within_seconds: 1\nfallback: agent robot'),
    robot: '---\nexecutor: person\npeople: [keeper]\n---\n',
    silent: people('answer_within_seconds: 1'),
  })
  onTestFinished(() => processes.stop())
  await processes.write('bellwether.toml', settings)
  await processes.add('pmo')
  const first = await processes.add('worker')
  const turn = await processes.begin('boss')
  await wasAsked(processes, turn, 'alice')
  await kill(first)
  const second = await processes.add('worker')
  const late = await wasAsked(processes, turn, 'bob')
  await kill(second)
  const third = await processes.add('worker')
  const question = await until(
    'the fallback is asked',
    async () => (await openQuestions(processes.kernel.db, project, 'keeper'))[0],
    20_000,
  )
  expect(question.arguments['question']).toMatch(/^do it\n\n[^]*- bob, asked at [^]*Answer in their place\.$/)
  await kill(third)
  await answer(processes, question, 'by the robot')
  await processes.add('worker')
  expect(await processes.ended(turn)).toMatchObject({ outcome: 'success', text: 'by the robot', task_events: 1 })
  expect(await answer(processes, late, 'too late')).toEqual(['ignored'])

  const other = await processes.begin('silent')
  const end = await processes.ended(other)
  expect(end).toMatchObject({ outcome: 'failed', error: 'nobody_answered', task_events: 1 })
  expect(end.text).toMatch(/- alice, asked at \S+: no answer within 1 s\n- bob, asked at \S+: no answer within 1 s/)
})
