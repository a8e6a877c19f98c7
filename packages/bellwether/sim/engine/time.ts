/**
 * The world's one clock. The monotonic scale moves only when the scheduler says so; the wall, which is also the
 * database's clock, is that plus an offset that a clock jump changes (a machine that slept, a clock that was set).
 * It holds no timers: those belong to their fibre and die with it.
 */
const epochUs = Date.UTC(2030, 0, 1) * 1000

export class VirtualTime {
  monotonicUs = 0
  #offsetUs = epochUs

  get wallUs(): number {
    return this.monotonicUs + this.#offsetUs
  }

  /** Time passes for everybody: sleepers wake. */
  pass(us: number): void {
    this.monotonicUs += us
  }

  /** The wall moves, forward or back, and nobody's sleep ends. */
  jump(us: number): void {
    this.#offsetUs += us
  }
}
