/**
 * The clock of the simulated world. The monotonic clock moves only when the scheduler moves it; the wall clock, which is also the database's clock,
 * is the monotonic clock plus an offset that a clock jump changes. Timers belong to their fibre and die with it.
 */
const epochUs = Date.UTC(2030, 0, 1) * 1000

export class VirtualTime {
  monotonicUs = 0
  #offsetUs = epochUs

  get wallUs(): number {
    return this.monotonicUs + this.#offsetUs
  }

  /** Time passes for all fibres: sleeping ones wake. */
  pass(us: number): void {
    this.monotonicUs += us
  }

  /** The wall clock moves, forward or back, and no sleep ends. */
  jump(us: number): void {
    this.#offsetUs += us
  }
}
