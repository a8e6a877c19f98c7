/**
 * Bounds what requests hold while they run, such as bytes of bodies or streams: by one total, and by a maximum per name, so that one key or
 * address cannot take it all. Pure bookkeeping: a name that holds nothing costs no memory.
 */
import { Retryable } from '@bellwether/protocol'

export interface Shares {
  /** Takes an amount for a name, or throws `busy`. Call the result once to give it back. */
  take(name: string, amount: number, perName: number): () => void
  readonly used: number
}

export function makeShares(what: string, total: number, afterMs: number): Shares {
  const byName = new Map<string, number>()
  let used = 0
  const busy = (whose: string, max: number) =>
    new Retryable(`Too many ${what} ${whose}: at most ${max}`, { code: 'busy', afterMs })
  return {
    get used() {
      return used
    },
    take(name, amount, perName) {
      const own = byName.get(name) ?? 0
      if (own + amount > perName) throw busy('for one client', perName)
      if (used + amount > total) throw busy('at once', total)
      used += amount
      byName.set(name, own + amount)
      let isHeld = true
      return () => {
        if (!isHeld) return
        isHeld = false
        used -= amount
        const left = (byName.get(name) ?? amount) - amount
        if (left <= 0) byName.delete(name)
        else byName.set(name, left)
      }
    },
  }
}
