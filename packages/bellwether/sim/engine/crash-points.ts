/**
 * Crashes a fibre at every place where it can die, one run each: a run without faults counts the yields of the fibre, then each further run
 * crashes it at one of them under the same schedule. For scenarios small enough to try all places, or every n-th one.
 */
import { noFaults } from './plan.js'
import { run, type Outcome, type RunOptions, type Scenario } from './run.js'
import type { World } from './world.js'

/** Calls `verify` after each run, the faultless one first (`nth` is undefined there). Returns the number of places. */
export async function forEachCrashPoint(
  world: World,
  scenario: Scenario,
  options: RunOptions & { readonly fibre: string; readonly every?: number },
  verify: (outcome: Outcome, nth: number | undefined) => Promise<void> | void,
): Promise<number> {
  const { fibre, every = 1, plan = noFaults } = options
  const faultless = await run(world, scenario, options)
  await verify(faultless, undefined)
  const yields = faultless.yields.get(fibre)
  if (yields === undefined) throw new Error(`The scenario spawns no fibre "${fibre}"`)
  for (let nth = 0; nth < yields; nth += every) {
    const faults = [...plan.faults, { kind: 'crash', at: { fibre, nth } } as const]
    await verify(await run(world, scenario, { ...options, plan: { ...plan, faults } }), nth)
  }
  return yields
}
