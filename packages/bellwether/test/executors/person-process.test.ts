import { expect, it } from 'vitest'
import { openQuestions, type OpenQuestion } from '../support/questions.js'
import type { Cli } from '../support/process.js'
import { until } from '../support/until.js'
import { openWorld, project, type World } from './world.js'

const people = (more: string) => `---\nexecutor: person\npeople: [alice, bob]\n${more}\n---\nYou decide on releases.\n`
// The shortest wait that a worker keeps is its own suspend timeout.
const settings = '[worker]\nsuspend_timeout_seconds = 1\n'

const asked = (world: World, turn: string, to: string, more: (question: OpenQuestion) => boolean = () => true) =>
  until(
    `${to} is asked`,
    async () =>
      (await openQuestions(world.kernel.db, project, to)).find((one) => one.agent_turn_id === turn && more(one)),
    20_000,
  )
const answer = (world: World, question: OpenQuestion, result: unknown) =>
  world.kernel.report([{ projectId: project, toolCallId: question.tool_call_id, status: 'success', result }])
const kill = async (worker: Cli) => {
  worker.signal('SIGKILL')
  await worker.ended
}
const asks = (world: World, turn: string) =>
  world.kernel.db.query<{ to: string }>({
    text: `select content -> 'arguments' ->> 'to' as "to" from cards.cards
      where type = 'tool.call' and metadata ->> 'agent_turn_id' = $1 order by card_id`,
    values: [turn],
  })

it.concurrent(
  '[T8.1] [T1.6] workers killed with SIGKILL while people think lose no answer and ask nobody twice',
  { timeout: 180_000 },
  async ({ onTestFinished }) => {
    const world = await openWorld({ boss: people('choices: [yes, no]') })
    onTestFinished(() => world.stop())
    const first = await world.add('worker')
    const turn = await world.begin('boss')
    const question = await asked(world, turn, 'alice')
    expect(question.arguments).toMatchObject({ question: 'do it', instructions: 'You decide on releases.' })
    // The file's turns have room for two people and a day for each.
    expect(question.deadline!.getTime() - question.asked_at.getTime()).toBeCloseTo(86_400_000, -4)
    await kill(first)

    // Nobody lives who could hear it: the answer waits in the inbox.
    expect(await answer(world, question, 'perhaps')).toEqual(['reported'])
    const second = await world.add('worker')
    const again = await asked(world, turn, 'alice', (one) => 'refused' in one.arguments)
    expect(again.arguments['refused']).toBe('the answer must be one of: yes, no')
    await kill(second)

    await answer(world, again, 'no')
    await world.add('worker')
    expect(await world.ended(turn)).toMatchObject({ outcome: 'success', text: 'no', task_events: 1 })
    expect(await asks(world, turn)).toEqual([{ to: 'alice' }, { to: 'alice' }])
  },
)

it.concurrent(
  '[W5.1] people who are silent are followed by the next, then by an agent, also when workers are killed in between',
  { timeout: 180_000 },
  async ({ onTestFinished }) => {
    const world = await openWorld({
      boss: people('answer_within_seconds: 1\nfallback: agent robot'),
      robot: '---\nexecutor: person\npeople: [keeper]\n---\n',
      nobody: people('answer_within_seconds: 1'),
    })
    onTestFinished(() => world.stop())
    await world.write('bellwether.toml', settings)
    await world.add('pmo')
    const first = await world.add('worker')
    const turn = await world.begin('boss')
    await asked(world, turn, 'alice')
    await kill(first)
    const second = await world.add('worker')
    const late = await asked(world, turn, 'bob')
    await kill(second)
    const third = await world.add('worker')
    const question = await until(
      'the fallback is asked',
      async () => (await openQuestions(world.kernel.db, project, 'keeper'))[0],
      20_000,
    )
    expect(question.arguments['question']).toMatch(/^do it\n\n[^]*- bob, asked at [^]*Answer in their place\.$/)
    await kill(third)
    await answer(world, question, 'by the robot')
    await world.add('worker')
    expect(await world.ended(turn)).toMatchObject({ outcome: 'success', text: 'by the robot', task_events: 1 })
    expect(await answer(world, late, 'too late')).toEqual(['ignored'])

    const other = await world.begin('nobody')
    const end = await world.ended(other)
    expect(end).toMatchObject({ outcome: 'failed', error: 'nobody_answered', task_events: 1 })
    expect(end.text).toMatch(/- alice, asked at \S+: no answer within 1 s\n- bob, asked at \S+: no answer within 1 s/)
  },
)
