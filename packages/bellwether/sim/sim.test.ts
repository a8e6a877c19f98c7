/**
 * A short run of the simulation: one seed of half of the stories, half of the races crashed at every twelfth statement, and the same seed of
 * the fleet twice. The halves change each day; `npm run thorough` plays all of them and crashes at every statement. `npm run sim` and `npm
 * run sim -- --crashes` are the long runs.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ownCluster, type OwnCluster } from './cluster.js'
import { races } from './races.js'
import { findingText, forEachCrashPoint, type World } from './engine/index.js'
import { play } from './play.js'
import { stories, type StoryName } from './scenarios.js'
import { openKernelWorld } from './stage.js'
import type { Story } from './story.js'
import { thorough, today } from '../test/support/thorough.js'

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

const isPlayedToday = (_: unknown, index: number) => thorough || index % 2 === today % 2
const small = (Object.keys(stories) as StoryName[]).filter((name) => name !== 'fleet').filter(isPlayedToday)

it.each(small)('finds nothing in "%s"', { timeout: 600_000 }, async (name) => {
  expect((await play(world, 1, name, true)).found).toBeUndefined()
})

it(
  '[T1.1] [T1.6] [T8.1] [W5.1] ends every turn of a fleet once under injected faults, and gives the same trace for the same seed',
  { timeout: 600_000 },
  async () => {
    for (const seed of thorough ? [101, 102] : [101]) {
      const first = await play(world, seed, 'fleet', true)
      const second = await play(world, seed, 'fleet', true)
      expect(first.found).toBeUndefined()
      expect(second.hash).toBe(first.hash)
    }
  },
)

it.each((Object.keys(races) as (keyof typeof races)[]).filter(isPlayedToday))(
  '[T1.2] keeps its invariants when a side of "%s" dies at any statement',
  { timeout: 600_000 },
  async (name) => {
    const story: Story = races[name]
    for (const fibre of story.fibres) {
      await forEachCrashPoint(
        world,
        story.scenario,
        { seed: 7, fibre, always: story.always, every: thorough ? 1 : 12 },
        (outcome, nth) => {
          expect(outcome.finding && `${fibre} crashed at ${nth}: ${findingText(outcome.finding)}`).toBeUndefined()
        },
      )
    }
  },
)
