/** The engine's front door: open a world, run scenarios in it, look at what was found. */
export { forEachCrashPoint } from './crash-points.js'
export type { Body } from './fibers.js'
export type { Fibre } from './fibre.js'
export { findingText, type Finding, type Invariant } from './finding.js'
export { arbitraryPlan, noFaults, type Plan } from './plan.js'
export { run, type Outcome, type Scenario, type Stage } from './run.js'
export { openWorld, type World } from './world.js'
