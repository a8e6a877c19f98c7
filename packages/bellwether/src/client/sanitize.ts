/**
 * Makes text of agents, files or servers safe to display: without control characters, marks that change the writing direction, and
 * unpaired surrogates. Pure.
 */

/** Characters that control a terminal, or that make text look like other text. */
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu

/** One line: line breaks and tabs become spaces, other unsafe characters question marks. */
export function plain(text: string): string {
  return text.replaceAll(unsafe, (found) => (found === '\n' || found === '\t' ? ' ' : '?'))
}

/** Several lines: line breaks and tabs stay. */
export function block(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(unsafe, (found) => (found === '\n' || found === '\t' ? found : '?'))
}

/** The same JSON value, with every unsafe character escaped. */
export function safeJson(value: unknown): string {
  return escapeUnsafe(JSON.stringify(value))
}

/** The same JSON text, with every unsafe character escaped. Line breaks between values stay. */
export function escapeUnsafe(json: string): string {
  return json.replaceAll(unsafe, (found) => {
    if (found === '\n') return found
    const units = Array.from({ length: found.length }, (_, at) => found.charCodeAt(at))
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
  })
}
