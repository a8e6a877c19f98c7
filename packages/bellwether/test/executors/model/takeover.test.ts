/** Workers that die during a model's turn: the next worker continues from the cards, and nothing happens twice. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Kernel } from '../../../src/kernel/kernel.js'
import type { ModelRequest } from '../../../src/ports/model/model.js'
import type { Script } from '../../../src/ports/model/scripted.js'
import type { ModelSpec } from '../../../src/worker/executors/model/spec.js'
import { wrongSums } from '../../support/forks.js'
import { cardsIn, headOf, turnRow, waitsOf } from '../../support/kernel-rows.js'
import { thorough } from '../../support/thorough.js'
import { until } from '../../support/until.js'
import { flawsIn, never, openModelSetup, toolboxOf, type ModelSetup } from './model-setup.js'

let b: ModelSetup
const ran = new Map<string, number>()
beforeAll(async () => {
  const count = ({ key }: Record<string, unknown>) => {
    ran.set(String(key), (ran.get(String(key)) ?? 0) + 1)
    return `counted ${String(key)}`
  }
  // Every call is planned twice or more, and must be made once.
  b = await openModelSetup({ tools: { count }, toolbox: toolboxOf(['count']) })
})
afterAll(() => b.close())

/** Two calls and one that is refused; one more call; then the end. */
const script =
  (name: string, asked: ModelRequest[]): Script =>
  (request, turn) => {
    asked.push(request)
    const call = (key: string) => ({ name: 'count', args: { key: `${name}-${key}` } })
    const answers = [
      { text: 'first', calls: [call('a'), { name: 'nope', args: {} }, call('b')] },
      { text: 'second', calls: [call('c')] },
      { text: 'all counted' },
    ]
    return answers[turn]!
  }

const verbs = ['record', 'reserve', 'commitUsage', 'suspend', 'resume', 'swapBox', 'deliver'] as const
type Verb = (typeof verbs)[number]

/** A kernel that dies at its nth call of a verb: with the effect, or without. */
function dying(
  kernel: Kernel,
  at: number,
  effect: 'before' | 'after',
): { kernel: Partial<Kernel>; died: Promise<void> } {
  let calls = 0
  let tell: () => void
  const died = new Promise<void>((resolve) => (tell = resolve))
  const wrapped = (verb: Verb) => {
    const act = kernel[verb] as (...args: unknown[]) => Promise<unknown>
    return async (...args: unknown[]): Promise<unknown> => {
      calls += 1
      if (calls > at) return never()
      if (calls < at) return act(...args)
      if (effect === 'after') await act(...args)
      tell()
      return never()
    }
  }
  return { kernel: Object.fromEntries(verbs.map((verb) => [verb, wrapped(verb)])) as Partial<Kernel>, died }
}

/** Steps the mortal worker, with its tools answered, until it is dead or done. */
async function untilDead(
  name: string,
  at: number,
  effect: 'before' | 'after',
  model: string,
  spec: Partial<ModelSpec> = {},
): Promise<{ turn: string; died: boolean }> {
  const turn = await b.begin({ model, ...spec }, { agentId: name, budget: { tokens: 1_000_000 } })
  const { kernel, died } = dying(b.t.kernel, at, effect)
  const worker = b.mortal(kernel)
  let dead = false
  void died.then(() => (dead = true))
  await until('the worker is dead, or the turn is over', async () => {
    await worker.step()
    await b.answerTools()
    return dead || (await turnRow(b.t, turn)).ended_at !== null || undefined
  })
  for (const scope of worker.running.values()) scope.cancellation.cancel('draining')
  return { turn, died: dead }
}

it.each(['before', 'after'] as const)(
  '[T1.6] [T8.1] a worker that dies %s any of its writes leaves a turn that another ends: no call, step or charge twice',
  async (effect) => {
    let places = 0
    for (let at = 1; ; at += 1) {
      const name = `d-${effect}-${at}`
      const asked: ModelRequest[] = []
      const { turn, died } = await untilDead(name, at, effect, b.script(script(name, asked)))
      if (!died) break
      places += 1
      if ((await turnRow(b.t, turn)).ended_at === null) await b.reclaimed()
      const ended = await b.ended(turn)
      expect({ at, outcome: ended.outcome, text: ended.text, taskEvents: ended.taskEvents }).toEqual({
        at,
        outcome: 'success',
        text: 'all counted',
        taskEvents: 1,
      })
      expect({ at, ran: ['a', 'b', 'c'].map((key) => ran.get(`${name}-${key}`)) }).toEqual({ at, ran: [1, 1, 1] })
      expect({ at, steps: ended.steps.map((step) => step.step_id.slice(-5)) }).toEqual({
        at,
        steps: ['s0001', 's0002', 's0003'],
      })
      expect(ended.steps.every((step) => step.status === 'success')).toBe(true)
      const cards = await cardsIn(b.t, (await headOf(b.t, name)).output_box_id)
      expect(cards.filter((card) => card.type === 'agent.thought')).toHaveLength(3)
      expect(cards.filter((card) => card.type === 'tool.result')).toHaveLength(4)
      expect(asked.flatMap(flawsIn)).toEqual([])
      // A model that was asked when its worker died is asked again, and no more than that.
      expect(asked.length).toBeLessThanOrEqual(4)
    }
    expect(places).toBeGreaterThan(15)
    expect(await wrongSums(b.t)).toEqual([])
  },
)

it.each(thorough ? (['before', 'after'] as const) : (['after'] as const))(
  '[T5.4] [T8.1] a worker that dies %s any write of a turn with compactions loses nothing of it',
  async (effect) => {
    const died: string[] = []
    for (let at = 1; ; at += 1) {
      const name = `k-${effect}-${at}`
      const pagesIn = (text: string) => [...text.matchAll(/page (\d+)/g)].map((match) => Number(match[1]))
      const model = b.script((request) => {
        const last = Math.max(0, ...pagesIn(JSON.stringify(request.messages)))
        if (request.tools.length === 0) return { text: `read up to page ${last}` }
        const text = `${'z'.repeat(900)} page ${last + 1}`
        return last < 3
          ? { text, calls: [{ name: 'count', args: { key: `${name}-${last + 1}` } }] }
          : { text: 'all read' }
      })
      const { turn, died: dead } = await untilDead(name, at, effect, model, {
        context_tokens: 1_200,
        max_output_tokens: 100,
      })
      if (!dead) break
      if ((await turnRow(b.t, turn)).ended_at === null) await b.reclaimed()
      const ended = await b.ended(turn)
      expect({ at, outcome: ended.outcome, text: ended.text }).toEqual({ at, outcome: 'success', text: 'all read' })
      const keys = [1, 2, 3].map((page) => ran.get(`${name}-${page}`))
      expect({ at, keys }).toEqual({ at, keys: [1, 1, 1] })
      const rows = ended.steps.filter((step) => step.phase === 'model')
      expect({ at, rows: rows.length, compacted: ended.steps.length > rows.length }).toEqual({
        at,
        rows: 4,
        compacted: true,
      })
      died.push(name)
    }
    expect(died.length).toBeGreaterThan(20)
    expect(await wrongSums(b.t)).toEqual([])
  },
)

it('[T8.1] a worker that dies during a model call: the next worker makes the same step, with one row', async () => {
  let asked = 0
  const model = b.script(async () => {
    asked += 1
    return asked === 1 ? never() : { text: 'thought after all' }
  })
  const turn = await b.begin({ model }, { budget: { tokens: 50_000 } })
  const mortal = b.mortal({})
  await mortal.step()
  await until('it thinks', async () => asked === 1 || undefined)
  for (const scope of mortal.running.values()) scope.cancellation.cancel('draining')
  await b.reclaimed()
  const ended = await b.ended(turn)
  expect(ended).toMatchObject({ outcome: 'success', text: 'thought after all' })
  expect(ended.steps).toMatchObject([{ metadata: { taken_over: true }, status: 'success' }])
  // What the dead one had reserved it may have spent.
  const rows = await b.t.all<{ status: string }>(
    'select status from state.reservations where agent_turn_id = $1 order by created_at',
    turn,
  )
  expect(rows.map((row) => row.status)).toEqual(['charged', 'committed'])
})

it('max_steps counts across takeovers, from the cards', async () => {
  const model = b.script((_request, turn) => ({
    text: `n${turn}`,
    calls: [{ name: 'count', args: { key: `m${turn}` } }],
  }))
  const turn = await b.begin({ model, budget: { max_steps: 3 } })
  const mortal = b.mortal({ resume: never })
  await until('it waits to be resumed', async () => {
    await mortal.step()
    await b.answerTools()
    const [wait] = await waitsOf(b.t, turn)
    return wait?.wait_status === 'received' || undefined
  })
  for (const scope of mortal.running.values()) scope.cancellation.cancel('draining')
  await b.reclaimed()
  const ended = await b.ended(turn)
  expect(ended).toMatchObject({ outcome: 'failed', error: 'max_steps' })
  expect(ended.steps).toHaveLength(3)
})

it('reports a call whose result is lost as unknown, once, in a valid conversation', async () => {
  const asked: ModelRequest[] = []
  const model = b.script((request, turn) => {
    asked.push(request)
    return turn === 0 ? { calls: [{ name: 'count', args: { key: 'lost' } }] } : { text: 'I looked first.' }
  })
  const turn = await b.begin({ model })
  const mortal = b.mortal({ suspend: never })
  await mortal.step()
  await until('it has thought', async () => {
    const cards = await b.t.all("select from cards.cards where metadata ->> 'agent_turn_id' = $1", turn)
    return cards.length > 0 || undefined
  })
  for (const scope of mortal.running.values()) scope.cancellation.cancel('draining')
  // The call was made, as its card says; of its result there is nothing.
  await b.reclaimed()
  const [claimed] = await b.t.claim(10, 'bench')
  await b.t.kernel.record({
    ...claimed!,
    cards: [
      {
        type: 'tool.call',
        content: { tool_call_id: `${turn}-s0001-c1`, tool_name: 'count', arguments: { key: 'lost' } },
        metadata: { agent_turn_id: turn },
      },
    ],
  })
  b.worker.start([claimed!])
  expect(await b.ended(turn)).toMatchObject({ outcome: 'success', text: 'I looked first.' })
  expect(asked.at(-1)!.messages.at(-1)).toMatchObject({
    outputs: [{ failed: true, text: expect.stringMatching(/^Unknown: the worker was lost/) }],
  })
})
