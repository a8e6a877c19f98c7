/** The demo and the chaos run, as `bellwether demo` starts them, and the check of turns that both end with. */
export { checkTurns, type TurnCheck } from './check.js'
export { runChaos, type ChaosOptions } from './chaos/chaos.js'
export { runDemo, type DemoOptions } from './demo.js'
