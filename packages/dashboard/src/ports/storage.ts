/**
 * What the browser remembers: the key for this tab, the theme and the last project for longer. Always: a browser that forbids
 * storage costs memory, never the page.
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
      // Private windows and full disks: the copy in memory serves until the tab is closed.
      return
    }
  },
}
