/**
 * The keyboard as a small state machine: `g` and a letter navigate, single keys act. Pure. It ignores keys typed into
 * a field and the browser's own shortcuts.
 */
export type Press =
  | { readonly what: 'go'; readonly to: string }
  /** A control with this key in `aria-keyshortcuts`. */
  | { readonly what: 'control'; readonly key: string }
  | { readonly what: 'help' | 'search' | 'next' | 'previous' | 'open' | 'select' | 'range' | 'clear' | 'nothing' }

const places: Readonly<Record<string, string>> = {
  f: 'fleet',
  b: 'board',
  t: 'turns',
  r: 'trends',
  e: 'evals',
  s: 'schedules',
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
  x: 'select',
  X: 'range',
  Escape: 'clear',
}
/** The keys of controls on a page, each with what it does there. */
const controlKeys = ['a', 'e', 'm', 'n', 'p', 'r', 's', 'u', '1', '2', '3', '4', '5', '6', '7', '8', '9']
// The time to press the second key.
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
    if (controlKeys.includes(key)) return { what: 'control', key }
    const what = Object.hasOwn(singles, key) ? singles[key] : undefined
    return what === undefined || what === 'go' || what === 'control' ? { what: 'nothing' } : { what }
  }
}
