/** The public part of the engine: open a world, run scenarios in it, read the findings. */
export { forEachCrashPoint } from './crash-points.js'
export type { Body } from './fibres.js'
export type { Fibre } from './fibre.js'
export { findingText, type Finding, type Invariant } from './finding.js'
export { arbitraryPlan, noFaults, type Plan } from './plan.js'
export { run, type Outcome, type Scenario, type Stage } from './run.js'
export { openWorld, type World } from './world.js'
