/**
 * Makes text of agents, files or servers safe to display: without control characters, marks that change the writing direction, and
 * unpaired surrogates. Pure.
 */

import { unsafeCharacters } from '@bellwether/base'

export { block, plain } from '@bellwether/base'

/** The same JSON value, with every unsafe character escaped. */
export function safeJson(value: unknown): string {
  return escapeUnsafe(JSON.stringify(value))
}

/** The same JSON text, with every unsafe character escaped. Line breaks between values stay. */
export function escapeUnsafe(json: string): string {
  return json.replaceAll(unsafeCharacters, (found) => {
    if (found === '\n') return found
    const units = Array.from({ length: found.length }, (_, at) => found.charCodeAt(at))
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
  })
}
