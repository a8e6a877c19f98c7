/** Trails that earlier versions recorded: this version reads them and replays each one exactly. Add files; never change one. */
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
