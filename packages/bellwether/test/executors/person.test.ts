import { expect, it } from 'vitest'
import type { NewTurn } from '../../src/kernel/verbs/turn/enqueue.js'
import type { ReportResult } from '../../src/kernel/verbs/tools/report.js'
import { expireWaits } from '../../src/kernel/verbs/watchdog/watchdog.js'
import type { AgentFunction } from '../../src/worker/agent.js'
import { readTrail } from '../../src/kernel/reads/trail.js'
import { forkOf } from '../../src/worker/replay/fork.js'
import { replay } from '../../src/worker/replay/replay.js'
import { openQuestions, type OpenQuestion } from '../support/agents/questions.js'
import { personAgent } from '../../src/worker/executors/person/person.js'
import type { PersonSpec } from '../../src/worker/executors/person/spec.js'
import { readAgentFile } from '../../src/worker/roster/agent-file.js'
import { join } from '../support/forks.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { differingReplays, rowsHash } from '../support/replays.js'
import { headOf, turnRow, waitsOf } from '../support/kernel-rows.js'
import { enqueueTurn, fullWatchWindow } from '../support/kernel-turns.js'
import { carriedOut, carryOutAction } from '../support/agents/ui-actions.js'
import { pass, workerOn } from '../support/watchdog.js'
import { until } from '../support/until.js'
import { runTurns, turnsDone } from '../support/worker.js'

const t = kernelPerFile()

const hourSeconds = 3_600
let agents = 0

/** A turn of a new agent that is these people, brought to its first question. */
async function asked(spec: Partial<PersonSpec>, more: Partial<NewTurn> = {}) {
  const agentId = `people-${(agents += 1)}`
  await t.kernel.putAgents([
    { projectId: project, agentId, workerTarget: target, turnDeadlineSeconds: 60 * hourSeconds },
  ])
  const { worker } = workerOn(t, { agent: personAgent({ instructions: '', ...spec }) })
  const { agentTurnId } = await enqueueTurn(t, agentId, { instruction: 'May we ship?', ...more })
  const step = () => runTurns(worker)
  await step()
  return {
    agentId,
    agentTurnId,
    step,
    question: async (): Promise<OpenQuestion | undefined> =>
      (await openQuestions(t.db, project)).find((one) => one.agent_turn_id === agentTurnId),
    async answer(
      result: unknown,
      status: 'success' | 'canceled' | 'failed' = 'success',
      reason?: string,
    ): Promise<ReportResult> {
      const waiting = (await waitsOf(t, agentTurnId)).find((one) => one.wait_status === 'waiting')!
      const error = reason === undefined ? {} : { error: { code: 'declined', message: reason } }
      const [taken] = await t.kernel.report([
        { projectId: project, toolCallId: waiting.tool_call_id, status, result, ...error },
      ])
      await step()
      return taken!
    },
    async silence(seconds: number) {
      await t.advance(seconds)
      await expireWaits(t.db, t.ids, target, fullWatchWindow)
      await step()
    },
    async end() {
      const row = await turnRow(t, agentTurnId)
      const card = row.deliverable_card_id === null ? undefined : await t.kernel.readCard(row.deliverable_card_id)
      const { text, fields } = (card?.content ?? {}) as { text?: string; fields?: unknown }
      return { outcome: row.outcome, error: row.error, text, fields }
    },
  }
}

it('[T3.3b] waits for a person without a command, and delivers the answer', async () => {
  const turn = await asked({ people: ['alice'], instructions: 'You decide on releases.', choices: ['yes', 'no'] })
  expect(await turn.question()).toMatchObject({
    agent_id: turn.agentId,
    arguments: {
      to: 'alice',
      question: 'May we ship?',
      instructions: 'You decide on releases.',
      choices: ['yes', 'no'],
      answer_within_seconds: 24 * hourSeconds,
    },
  })
  expect(await openQuestions(t.db, project, 'bob')).toEqual([])
  const commands = "select from state.events where agent_turn_id = $1 and kind = 'command'"
  expect(await t.all(commands, turn.agentTurnId)).toEqual([])
  const { resume_deadline: until, turn_deadline: end } = await headOf(t, turn.agentId)
  expect(end!.getTime()).toBeGreaterThan(until!.getTime())
  const [{ asked_at: at }] = [(await turn.question())!]
  expect((until!.getTime() - at.getTime()) / 1_000).toBeCloseTo(24 * hourSeconds, 0)

  expect(await turn.answer('Yes ')).toBe('reported')
  expect(await turn.end()).toEqual({ outcome: 'success', error: null, text: 'yes', fields: undefined })
  expect(await turn.question()).toBeUndefined()
  expect(await t.all('select phase, status from state.agent_steps where agent_turn_id = $1', turn.agentTurnId)).toEqual(
    [{ phase: 'ask_person', status: 'success' }],
  )
})

it('[T3.1e] an action on a person’s agent calls the tool and does not ask the person', async () => {
  await t.agents('desk')
  const { worker } = workerOn(t, { agent: personAgent({ instructions: '' }) })
  expect(await carryOutAction(t, 'desk', () => runTurns(worker))).toMatchObject(carriedOut)
})

it('[T4.2a] rejects an answer without the required fields, and asks again with the reason within the same time', async () => {
  const fields = [
    { name: 'approved', type: 'boolean', required: true },
    { name: 'note', type: 'string' },
  ]
  const turn = await asked({ people: ['alice'], choices: ['never', 'shown'] }, { resultFields: fields })
  expect((await turn.question())!.arguments).toMatchObject({ result_fields: fields })
  expect((await turn.question())!.arguments).not.toHaveProperty('choices')
  await t.advance(10 * hourSeconds)
  await turn.answer('sure')
  const again = (await turn.question())!
  expect(again.arguments).toMatchObject({ to: 'alice', refused: expect.stringContaining('approved (required)') })
  expect(again.arguments['answer_within_seconds']).toBeCloseTo(14 * hourSeconds, -1)
  await turn.answer({ approved: 'yes' })
  expect((await turn.question())!.arguments['refused']).toContain('approved must be of type boolean')
  await turn.answer({ approved: true })
  expect(await turn.end()).toMatchObject({ outcome: 'success', fields: [{ name: 'approved', value: true }] })
})

it('asks the next person after three rejected answers or no answer, and reports everything at the end', async () => {
  const turn = await asked({
    people: ['alice', 'bob', 'cid'],
    choices: ['yes', 'no'],
    answer_within_seconds: hourSeconds,
  })
  for (const answer of ['perhaps', '', { nothing: 1 }]) await turn.answer(answer)
  expect((await turn.question())!.arguments).toMatchObject({ to: 'bob' })
  expect((await turn.question())!.arguments).not.toHaveProperty('refused')
  await turn.silence(hourSeconds - 60)
  expect((await turn.question())!.arguments).toMatchObject({ to: 'bob' })
  await turn.silence(120)
  expect((await turn.question())!.arguments).toMatchObject({ to: 'cid' })
  await turn.answer(null, 'canceled', 'on holiday')
  const { text, ...end } = await turn.end()
  expect(end).toMatchObject({ outcome: 'failed', error: 'nobody_answered' })
  expect(text).toMatch(/^No one answered\./)
  expect(text!.match(/- alice, asked at 20\d\d-/g)).toHaveLength(3)
  expect(text).toContain('answered, but the answer must be one of: yes, no')
  expect(text).toMatch(/- bob, asked at 20\S+: no answer within 3600 s/)
  expect(text).toMatch(/- cid, asked at 20\S+: declined: on holiday/)
})

it('lets the fallback agent answer, with the task and the report of all questions', async () => {
  await t.agents('oracle')
  const turn = await asked({ people: ['alice'], fallback: 'agent oracle', answer_within_seconds: hourSeconds })
  await turn.silence(hourSeconds + 60)
  const [child] = await t.claim()
  expect(child).toMatchObject({ agentId: 'oracle' })
  const texts = (await t.kernel.readBoxes([child!.contextBoxId])).map((card) => (card.content as { text: string }).text)
  expect(texts[0]).toBe('May we ship?')
  expect(texts[1]).toMatch(/alice, asked at \S+: no answer within 3600 s[^]*Answer in their place/)
  await t.kernel.deliver({ ...child!, status: 'success', content: { text: 'ship it' } })
  await join(t)
  await turn.step()
  expect(await turn.end()).toMatchObject({ outcome: 'success', text: 'ship it' })
})

it('fails the turn with the full report if the fallback fails or does not exist', async () => {
  const turn = await asked({ people: ['alice'], fallback: 'agent not-there', answer_within_seconds: hourSeconds })
  await turn.answer('', 'failed', 'not mine')
  for (let tries = 0; tries < 6; tries += 1) {
    await t.advance(20)
    await join(t)
  }
  await turn.step()
  const { text, ...end } = await turn.end()
  expect(end).toMatchObject({ outcome: 'failed', error: 'nobody_answered' })
  expect(text).toContain('declined: not mine')
  expect(text).toMatch(/agent not-there, asked at \S+ to answer in their place: failed: unknown_agent/)
})

it('[T8.2] ignores late, repeated and foreign answers, and honours control keys of an answer only where a host may set them', async () => {
  const turn = await asked({ people: ['alice', 'bob'], answer_within_seconds: hourSeconds })
  const first = (await turn.question())!.tool_call_id
  await turn.silence(hourSeconds + 60)
  const report = (toolCallId: string, result: unknown) =>
    t.kernel.report([{ projectId: project, toolCallId, status: 'success', result }])
  expect(await report(first, 'too late')).toEqual(['ignored'])
  expect(await report('ask-9-nowhere', 'hello')).toEqual(['unknown_tool_call'])
  expect(await turn.answer({ text: 'fine', to: 'mallory', tool_call_id: first })).toBe('reported')
  expect(await turn.end()).toMatchObject({ outcome: 'success', text: 'fine' })
})

it('stops asking when the turn is nearly over, and reports it', async () => {
  const agentId = 'hurried'
  await t.kernel.putAgents([
    { projectId: project, agentId, workerTarget: target, turnDeadlineSeconds: 2 * hourSeconds },
  ])
  const { worker } = workerOn(t, { agent: personAgent({ instructions: '', people: ['alice', 'bob'] }) })
  const { agentTurnId } = await enqueueTurn(t, agentId)
  const step = () => runTurns(worker)
  await step()
  const { resume_deadline: until, turn_deadline: end } = await headOf(t, agentId)
  expect(until!.getTime()).toBeLessThan(end!.getTime())
  await t.advance(2 * hourSeconds - 50)
  await expireWaits(t.db, t.ids, target, fullWatchWindow)
  await step()
  const question = (await openQuestions(t.db, project, 'bob')).find((one) => one.agent_turn_id === agentTurnId)
  expect(question!.arguments['answer_within_seconds']).toBeLessThan(50)
  await t.advance(49.9)
  await expireWaits(t.db, t.ids, target, fullWatchWindow)
  await step()
  expect(await turnRow(t, agentTurnId)).toMatchObject({ outcome: 'failed', error: 'nobody_answered' })
})

/** A worker that dies at this verb of its kernel: before the call, or after its commit and before the response. */
function mortal(agent: AgentFunction, verb: 'resume' | 'record' | 'suspend' | 'deliver', when: 'before' | 'after') {
  let dead = false
  const die = async (...words: readonly unknown[]) => {
    if (!dead && when === 'after') await (t.kernel[verb] as (...all: readonly unknown[]) => Promise<unknown>)(...words)
    dead = true
    return new Promise<never>(() => undefined)
  }
  const { worker } = workerOn({ ...t, kernel: { ...t.kernel, [verb]: die } }, { agent, workerId: 'mortal' })
  return { step: () => worker.step(), dead: () => until('it died', async () => dead || undefined) }
}

const verbs = ['resume', 'record', 'suspend', 'deliver'] as const
it.each(verbs.flatMap((verb) => (['before', 'after'] as const).map((when) => [when, verb] as const)))(
  '[W2.3b] [T8.1] a worker that dies %s %s loses no answer and repeats no question',
  async (when, verb) => {
    const agentId = `crash-${verb}-${when}`
    await t.kernel.putAgents([{ projectId: project, agentId, workerTarget: target, turnDeadlineSeconds: hourSeconds }])
    const agent = personAgent({ instructions: '', people: ['alice'], choices: ['yes', 'no'] })
    const heir = workerOn(t, { agent, workerId: 'heir' })
    const settled = () => turnsDone(heir.worker)
    const { agentTurnId } = await enqueueTurn(t, agentId)
    const open = async () => (await openQuestions(t.db, project)).find((one) => one.agent_turn_id === agentTurnId)
    const report = async (result: string) =>
      t.kernel.report([{ projectId: project, toolCallId: (await open())!.tool_call_id, status: 'success', result }])
    await heir.worker.step()
    await settled()
    // One bad answer, so that all of resume, record and suspend come after it; or a good one, which is delivered.
    await report(verb === 'deliver' ? 'yes' : 'perhaps')
    const victim = mortal(agent, verb, when)
    await victim.step()
    await victim.dead()
    await pass(t, 60, heir)
    await heir.worker.step()
    await settled()
    const question = await open()
    expect(question?.arguments['refused']).toBe(verb === 'deliver' ? undefined : 'the answer must be one of: yes, no')
    if (question !== undefined) {
      await report('no')
      await heir.worker.step()
      await settled()
    }
    expect(await turnRow(t, agentTurnId)).toMatchObject({ outcome: 'success' })
    expect(await waitsOf(t, agentTurnId)).toHaveLength(verb === 'deliver' ? 1 : 2)
    expect(await t.all('select from state.agent_steps where agent_turn_id = $1', agentTurnId)).toHaveLength(
      verb === 'deliver' ? 1 : 2,
    )
    expect(
      await t.all("select from state.events where agent_turn_id = $1 and kind = 'task'", agentTurnId),
    ).toHaveLength(1)
  },
)

it('[W2.2e] [W2.10] expires a wait of several days although workers restart every hour', async () => {
  const turn = await asked({ people: ['alice', 'bob'], answer_within_seconds: 48 * hourSeconds })
  await t.advance(49 * hourSeconds)
  const { rows } = { rows: await t.all<{ now: Date }>('select state.now() as now') }
  const nowMs = rows[0]!.now.getTime()
  const since = (seconds: number) => ({ ...fullWatchWindow, since: new Date(nowMs - seconds * 1_000) })
  expect(await expireWaits(t.db, t.ids, target, since(200))).toEqual([])
  expect(await expireWaits(t.db, t.ids, target, since(310))).toHaveLength(1)
  await turn.step()
  expect((await turn.question())!.arguments).toMatchObject({ to: 'bob' })
})

it.each([
  [
    'people: [alice]\nanswer_within_seconds: 600\nturn_deadline_seconds: 500',
    'agents/ann.md:5: asking everyone may take 600',
  ],
  ['people: [alice]\nfallback: agent ann', 'agents/ann.md:4: an agent cannot be its own "fallback"'],
  ['people: []', 'agents/ann.md:3: "people" is invalid'],
  ['fallback: bob', 'agents/ann.md:3: "fallback" is invalid: must be "fail", or "agent NAME" (got "bob")'],
  ['people: [a]\nanswer_within_seconds: 0', 'agents/ann.md:4: "answer_within_seconds" is invalid'],
  ['peple: [a]', 'agents/ann.md:3: unknown key "peple". Did you mean "people"?'],
])('reports the problem of the person front matter %j with its line', (keys, message) => {
  const file = readAgentFile('agents/ann.md', `---\nexecutor: person\n${keys}\n---\n`)
  expect('problems' in file && file.problems[0]).toContain(message)
})

it('gives a person agent a turn deadline that leaves time for everyone', () => {
  const text =
    '---\nexecutor: person\npeople: [alice, bob]\nanswer_within_seconds: 600\nfallback: agent zed\n---\nDecide.\n'
  const file = readAgentFile('agents/ann.md', text)
  expect(file).toMatchObject({
    agent: { settings: { executor: 'person', turn_deadline_seconds: 2 * 600 + 3_600 + 900 } },
  })
  const stray = readAgentFile('agents/ann.md', '---\ncommand: ls\npeople: [a]\n---\n')
  expect('problems' in stray && stray.problems[0]).toContain(
    '"people" is only for executor "person", but this agent has executor "command"',
  )
})

it('asks although an earlier turn left cards from the future, before the clock was set back', async () => {
  const ahead = 5 * 24 * hourSeconds
  await t.advance(ahead)
  const first = await asked({ people: ['alice'] })
  await first.answer('yes')
  expect(await first.end()).toMatchObject({ outcome: 'success' })
  await t.advance(-ahead)
  const { agentTurnId } = await enqueueTurn(t, first.agentId, { instruction: 'And now?' })
  await first.step()
  const open = await openQuestions(t.db, project)
  expect(open.find((one) => one.agent_turn_id === agentTurnId)).toMatchObject({ arguments: { question: 'And now?' } })
})

it('[T9.3] a person is asked the question of the own turn, whatever earlier turns left behind and whatever the memory is', async () => {
  for (const memory of ['none', 'box'] as const) {
    const agentId = `own-question-${memory}`
    const agent = { projectId: project, agentId, workerTarget: target, turnDeadlineSeconds: hourSeconds, memory }
    await t.kernel.putAgents([agent])
    const { worker } = workerOn(t, { agent: personAgent({ instructions: '', choices: ['yes', 'no'] }) })
    const open = async (id: string) => (await openQuestions(t.db, project)).find((one) => one.agent_turn_id === id)
    const ask = async (instruction: string) => {
      const { agentTurnId } = await enqueueTurn(t, agentId, { instruction })
      await runTurns(worker)
      return { agentTurnId, question: await open(agentTurnId) }
    }
    const answer = async ({ agentTurnId, question }: Awaited<ReturnType<typeof ask>>, result: string) => {
      await t.kernel.report([{ projectId: project, toolCallId: question!.tool_call_id, status: 'success', result }])
      await runTurns(worker)
      return turnRow(t, agentTurnId)
    }
    const first = await ask('Ship one?')
    expect(await answer(first, 'yes')).toMatchObject({ outcome: 'success' })
    // The clock was a day ahead while the first turn ran, and is set right: its cards are from the future.
    await t.advance(-86_400)
    const second = await ask('Ship two?')
    expect(second.question?.arguments).toMatchObject({
      question: 'Ship two?',
      answer_within_seconds: expect.any(Number),
    })
    expect(await answer(second, 'no')).toMatchObject({ outcome: 'success' })
    await t.advance(86_400)
  }
})

it('forks the turn of a person at each of its steps: it asks who was to be asked next there', async () => {
  const turn = await asked({ people: ['alice', 'bob'], answer_within_seconds: hourSeconds })
  await turn.silence(hourSeconds + 60)
  expect((await turn.question())?.arguments['to']).toBe('bob')
  await turn.answer('yes')
  const trail = (await readTrail(t.db, project, turn.agentTurnId, 'test'))!
  expect(replay(trail).steps.map(({ step }) => step)).toEqual([1, 2])
  const before = await rowsHash(t.db, turn.agentTurnId)
  for (const [at, to] of [
    [0, 'alice'],
    [1, 'bob'],
    [2, undefined],
  ] as const) {
    const fork = forkOf(trail, at, undefined, t.ids)
    await t.kernel.forkTurn({ ...fork, source: trail.turn, at })
    await turn.step()
    const question = (await openQuestions(t.db, project)).find((one) => one.agent_turn_id === fork.agentTurnId)
    expect([at, question?.arguments['to']]).toEqual([at, to])
    if (question !== undefined) {
      await t.kernel.report([
        { projectId: project, toolCallId: question.tool_call_id, status: 'success', result: 'no' },
      ])
      await turn.step()
    }
    const { outcome, deliverable_card_id: card } = await turnRow(t, fork.agentTurnId)
    const text = at === 2 ? 'yes' : 'no'
    expect([at, outcome, (await t.kernel.readCard(card!))?.content]).toMatchObject([at, 'success', { text }])
  }
  expect(await rowsHash(t.db, turn.agentTurnId)).toBe(before)
})

it('every turn of these tests replays exactly', async () => {
  expect(await differingReplays(t.db)).toEqual([])
})
