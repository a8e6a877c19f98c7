/** A clock that runs `speed` times as fast and whose wall time is off by `skewMs`. */
import { type Clock, systemClock } from '@bellwether/base'

export const quickClock = (speed: number, skewMs = 0): Clock => ({
  wallMs: () => systemClock.wallMs() + skewMs,
  monotonicMs: () => systemClock.monotonicMs() * speed,
  sleep: (ms, signal) => systemClock.sleep(ms / speed, signal),
})
