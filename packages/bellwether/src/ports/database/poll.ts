/** Asks until there is an answer or the time is over (then undefined). For things that no event tells: files, pids. */
import { systemClock } from '@bellwether/base'

export async function poll<T>(
  bounds: { readonly everyMs: number; readonly withinMs: number },
  ask: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const untilMs = systemClock.monotonicMs() + bounds.withinMs
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (systemClock.monotonicMs() >= untilMs) return undefined
    await systemClock.sleep(bounds.everyMs)
  }
}
