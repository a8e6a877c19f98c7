/** Trails that earlier versions and this one recorded: this version reads them and replays each one exactly. Add files; never change one. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { trailIn } from '../../src/http/routes/trails.js'
import { forkOf } from '../../src/worker/replay/fork.js'
import { replay } from '../../src/worker/replay/replay.js'

const folder = new URL('../fixtures/trails/', import.meta.url)
const names = readdirSync(folder)
const trailNamed = (name: string) =>
  trailIn(JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as Record<string, unknown>)

it('keeps trails of models, functions, actions, people and programs', () => {
  const executors = new Set(names.map((name) => name.split('-')[1]))
  expect(executors).toEqual(new Set(['action', 'command', 'function', 'model', 'none', 'person']))
})

it.each(names)('replays %s to the deliverable that was recorded, and forks it at each step', (name) => {
  const trail = trailNamed(name)
  const report = replay(trail)
  expect(report).toMatchObject({ result: 'exact', executor: name.split('-')[1] })
  let ids = 0
  const next = () => `new-${(ids += 1)}`
  for (const at of [report.first_step, ...report.steps.map(({ step }) => step)]) {
    const fork = forkOf(trail, at, undefined, { next })
    expect(JSON.stringify([fork.cards.map(({ cardId, metadata }) => [cardId, metadata]), fork.waits])).not.toContain(
      trail.turn.agent_turn_id,
    )
  }
})

it('refuses a document that was edited, cut, or has a card twice', () => {
  const trail = trailNamed('v2-command-success-resumed-session.json')
  const [first, ...others] = trail.cards
  const edited = { ...first!, content: { ...(first!.content as object), text: 'another text' } }
  const refusal = (document: object) => {
    try {
      trailIn(JSON.parse(JSON.stringify(document)) as Record<string, unknown>)
    } catch (error) {
      return (error as Error).message
    }
    return undefined
  }
  expect(refusal(trail)).toBeUndefined()
  const differing = 'Cannot import the trail: its content does not match its "sha256"'
  const [instruction, ...context] = trail.context
  for (const change of [
    { cards: [edited, ...others] },
    { cards: trail.cards.toReversed() },
    { cards: [first!, { ...others[0]!, metadata: { ...others[0]!.metadata, more: 1 } }, ...others.slice(1)] },
    { context },
    { context: [{ ...instruction!, content: { text: 'another instruction' } }, ...context] },
    { steps: [] },
    { turn: { ...trail.turn, deaths: 3 } },
    { bellwether: '9.9.9' },
    { sha256: undefined },
  ])
    expect([change, refusal({ ...trail, ...change })]).toEqual([change, differing])
  // Version 1 has no hash.
  const old = trailNamed('v1-model-success-ok.json')
  expect(refusal({ ...old, cards: [...old.cards, old.cards[0]] })).toMatch(/it has card "[\w-]+" twice$/)
  expect(refusal({ ...old, cards: old.cards.slice(0, -1) })).toMatch(/names card "[\w-]+", which it does not have$/)
})

it('names the step whose call was not what the answer of the model asked for', () => {
  const trail = trailNamed('v1-model-success-ok.json')
  const at = trail.cards.findIndex(({ type, metadata }) => type === 'tool.call' && metadata['refused'] === undefined)
  const call = trail.cards[at]!
  const other = { ...call, content: { ...(call.content as object), arguments: { a: 40 } } }
  expect(replay({ ...trail, cards: trail.cards.with(at, other) })).toMatchObject({
    result: 'differs',
    difference: { step: 4, what: 'a tool call' },
  })
})

it('names the question that a person was not to be asked, and a deliverable that is recorded as another turn’s', () => {
  const trail = trailNamed('v1-person-success-ok.json')
  const changed = (card: (typeof trail.cards)[number], change: object) =>
    replay({ ...trail, cards: trail.cards.map((one) => (one === card ? { ...one, ...change } : one)) })
  const question = trail.cards.find(({ type }) => type === 'tool.call')!
  const { arguments: args, ...call } = question.content as { readonly arguments: object }
  expect(changed(question, { content: { ...call, arguments: { ...args, refused: 'not an answer' } } })).toMatchObject({
    result: 'differs',
    difference: { step: 1, what: 'who is asked' },
  })
  const deliverable = trail.cards.find(({ card_id: id }) => id === trail.turn.deliverable_card_id)!
  expect(changed(deliverable, { metadata: { ...deliverable.metadata, agent_turn_id: 'another turn' } })).toMatchObject({
    result: 'differs',
    difference: { step: null, what: 'the record of the deliverable' },
  })
})

it.each(['v1-model-success-ok.json', 'v1-person-success-ok.json', 'v1-command-success-ok.json'])(
  'names the missing ending of %s if the cards that lead to it are gone',
  (name) => {
    const trail = trailNamed(name)
    const cards = trail.cards.filter(({ card_id: id }) => id === trail.turn.deliverable_card_id)
    expect(replay({ ...trail, cards })).toMatchObject({ result: 'differs', difference: { step: null } })
  },
)

it('runs no program again in the worktree of a task', () => {
  const trail = trailNamed('v1-command-success-ok.json')
  const inWorktree = {
    ...trail,
    turn: { ...trail.turn, payload: { ...trail.turn.payload, worktree: '/data/worktrees/T-1' } },
  }
  const ids = { next: () => 'new' }
  expect(forkOf(trail, 0, undefined, ids).cards).toEqual([])
  expect(() => forkOf(inWorktree, 0, undefined, ids)).toThrow('its worktree belongs to a task')
  expect(forkOf(inWorktree, 1, undefined, ids).cards).not.toEqual([])
})
