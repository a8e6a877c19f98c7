/**
 * The keyboard, as one small machine: `g` and a letter go somewhere, single keys act. Pure. Always: nothing is taken from somebody
 * who types into a field, or from the browser's own shortcuts.
 */
export type Press =
  | { readonly what: 'go'; readonly to: string }
  | { readonly what: 'help' | 'search' | 'next' | 'previous' | 'open' | 'nothing' }

export const places: Readonly<Record<string, string>> = {
  f: 'fleet',
  b: 'board',
  t: 'turns',
  n: 'needs-you',
  w: 'workspace',
  h: 'health',
}

const singles: Readonly<Record<string, Press['what']>> = {
  '?': 'help',
  '/': 'search',
  j: 'next',
  k: 'previous',
  o: 'open',
}
// As long as it takes to find the second key.
const pairMs = 1_500

export interface Pressed {
  readonly key: string
  readonly withModifier: boolean
  readonly inField: boolean
  readonly atMs: number
}

export function makeKeys(): (pressed: Pressed) => Press {
  let leaderAtMs = Number.NEGATIVE_INFINITY
  return ({ key, withModifier, inField, atMs }) => {
    if (withModifier || inField) return { what: 'nothing' }
    const isPair = atMs - leaderAtMs < pairMs
    leaderAtMs = Number.NEGATIVE_INFINITY
    if (isPair && Object.hasOwn(places, key)) return { what: 'go', to: places[key]! }
    if (key === 'g') {
      leaderAtMs = atMs
      return { what: 'nothing' }
    }
    const what = Object.hasOwn(singles, key) ? singles[key] : undefined
    return what === undefined || what === 'go' ? { what: 'nothing' } : { what }
  }
}
