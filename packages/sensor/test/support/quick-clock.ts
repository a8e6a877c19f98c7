/** A clock on which everything happens `speed` times as fast, and whose wall may be wrong by hours. */
import { type Clock, systemClock } from '@bellwether/base'

export const quickClock = (speed: number, skewMs = 0): Clock => ({
  wallMs: () => systemClock.wallMs() + skewMs,
  monotonicMs: () => systemClock.monotonicMs() * speed,
  sleep: (ms, signal) => systemClock.sleep(ms / speed, signal),
})
