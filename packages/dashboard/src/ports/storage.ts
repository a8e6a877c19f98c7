/**
 * What the browser stores: the key per tab; theme and last project permanently. If the browser forbids storage,
 * values are kept in memory.
 */
type Place = 'tab' | 'browser'

const fallback = new Map<string, string>()
const full = (name: string) => `bellwether.${name}`
const storeOf = (place: Place) => (place === 'tab' ? sessionStorage : localStorage)

export const storage = {
  get(place: Place, name: string): string | undefined {
    try {
      return storeOf(place).getItem(full(name)) ?? fallback.get(full(name))
    } catch {
      // The browser blocks storage for this page: the copy in memory is all there is.
      return fallback.get(full(name))
    }
  },
  set(place: Place, name: string, value: string | undefined): void {
    if (value === undefined) fallback.delete(full(name))
    else fallback.set(full(name), value)
    try {
      if (value === undefined) storeOf(place).removeItem(full(name))
      else storeOf(place).setItem(full(name), value)
    } catch {
      // Private window or full disk: the copy in memory lasts until the tab is closed.
      return
    }
  },
}
