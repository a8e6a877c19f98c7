/**
 * A short run of the simulation: one seed of every story, the races crashed at every sixth statement (at every one in `npm run
 * thorough`), and the same seed twice. `npm run sim` and `npm run sim -- --crashes` are the long runs.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ownCluster, type OwnCluster } from './cluster.js'
import { races } from './races.js'
import { findingText, forEachCrashPoint, type World } from './engine/index.js'
import { play } from './play.js'
import { stories, type StoryName } from './scenarios.js'
import { openKernelWorld } from './stage.js'
import type { Story } from './story.js'
import { thorough } from '../test/support/thorough.js'

let cluster: OwnCluster
let world: World
beforeAll(async () => {
  cluster = await ownCluster()
  world = await openKernelWorld(await cluster.database())
}, 300_000)
afterAll(async () => {
  await world.close()
  await cluster.remove()
})

const small = (Object.keys(stories) as StoryName[]).filter((name) => name !== 'fleet')

it.each(small)('finds nothing in "%s"', { timeout: 300_000 }, async (name) => {
  expect((await play(world, 1, name, true)).found).toBeUndefined()
})

it(
  '[T1.1] [T1.6] [T8.1] [W5.1] brings every turn of a fleet under attack to its one end, twice with the same trace',
  { timeout: 300_000 },
  async () => {
    for (const seed of thorough ? [101, 102] : [101]) {
      const first = await play(world, seed, 'fleet', true)
      const second = await play(world, seed, 'fleet', true)
      expect(first.found).toBeUndefined()
      expect(second.hash).toBe(first.hash)
    }
  },
)

it.each(Object.keys(races) as (keyof typeof races)[])(
  '[T1.2] keeps its invariants when a side of "%s" dies at any statement',
  { timeout: 300_000 },
  async (name) => {
    const story: Story = races[name]
    for (const fibre of story.fibres) {
      await forEachCrashPoint(
        world,
        story.scenario,
        { seed: 7, fibre, always: story.always, every: thorough ? 1 : 6 },
        (outcome, nth) => {
          expect(outcome.finding && `${fibre} crashed at ${nth}: ${findingText(outcome.finding)}`).toBeUndefined()
        },
      )
    }
  },
)
