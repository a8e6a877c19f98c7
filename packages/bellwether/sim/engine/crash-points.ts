/**
 * Every place where a fibre can die, one run each: first a run without faults counts the fibre's yields, then it is
 * crashed at each of them in turn under the same schedule. Meant for scenarios small enough to try them all.
 */
import { noFaults } from './plan.js'
import { run, type Outcome, type RunOptions, type Scenario } from './run.js'
import type { World } from './world.js'

/** Calls `verify` after each run, the faultless one first (`nth` is undefined there). Answers how many places there are. */
export async function forEachCrashPoint(
  world: World,
  scenario: Scenario,
  options: RunOptions & { readonly fibre: string },
  verify: (outcome: Outcome, nth: number | undefined) => Promise<void> | void,
): Promise<number> {
  const { fibre, plan = noFaults } = options
  const whole = await run(world, scenario, options)
  await verify(whole, undefined)
  const yields = whole.yields.get(fibre)
  if (yields === undefined) throw new Error(`the scenario spawns no fibre called ${fibre}`)
  for (let nth = 0; nth < yields; nth += 1) {
    const faults = [...plan.faults, { kind: 'crash', at: { fibre, nth } } as const]
    await verify(await run(world, scenario, { ...options, plan: { ...plan, faults } }), nth)
  }
  return yields
}
