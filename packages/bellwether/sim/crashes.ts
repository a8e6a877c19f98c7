/**
 * Runs every story except the fleet with each actor killed before and after every statement, one run each. A killed actor restarts if its
 * story says so; afterwards every turn must end.
 */
import { createHash } from 'node:crypto'
import { forEachCrashPoint, type World } from './engine/index.js'
import { foundOf, maxSteps, type Found } from './play.js'
import { stories, type StoryName } from './scenarios.js'
import type { Story } from './story.js'

export interface CrashPoints {
  readonly story: StoryName
  readonly fibre: string
}

/** A story that promises that no live turn is ended must not kill an actor. */
const neverKilled = [
  'overload',
  'absent watchdog',
  'every bell is lost',
  'a turn kills its workers',
  'no worker for a target',
  'an enqueue claims for its worker',
  'fleet',
]

export function crashPoints(only: StoryName | undefined): CrashPoints[] {
  const names =
    only === undefined ? (Object.keys(stories) as StoryName[]).filter((name) => !neverKilled.includes(name)) : [only]
  return names.flatMap((story) => stories[story].fibres.map((fibre) => ({ story, fibre })))
}

export async function playCrashes(world: World, { story: name, fibre }: CrashPoints, seed: number) {
  const story: Story = stories[name]
  const found: Found[] = []
  const hash = createHash('sha256')
  let steps = 0
  let runs = 0
  const options = { seed, fibre, always: story.always, atEnd: story.atEnd, maxSteps }
  await forEachCrashPoint(world, story.scenario, options, (outcome, nth) => {
    hash.update(outcome.hash)
    steps += outcome.steps
    runs += 1
    if (outcome.finding === undefined) return
    const plan = { faults: nth === undefined ? [] : [{ kind: 'crash' as const, at: { fibre, nth } }] }
    found.push(foundOf(seed, name, { outcome, plan }))
  })
  return { found, steps, runs, hash: hash.digest('hex') }
}
