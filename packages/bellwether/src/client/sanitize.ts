/**
 * Text that agents, files or servers wrote, made harmless for whoever shows it: no control characters, no marks that turn the
 * direction of writing, no halves of characters. Pure.
 */

/** What a terminal would obey, or what makes text look like other text. Line breaks and tabs are the caller's choice. */
const speaking = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu

/** One line: breaks and tabs are blanks, what a terminal would obey is a question mark. */
export function plain(text: string): string {
  return text.replaceAll(speaking, (found) => (found === '\n' || found === '\t' ? ' ' : '?'))
}

/** Several lines: breaks and tabs stay. */
export function block(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(speaking, (found) => (found === '\n' || found === '\t' ? found : '?'))
}

/** JSON that means the same, with everything written out that a terminal would obey. */
export function harmlessJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(speaking, (found) => {
    const units = Array.from({ length: found.length }, (_, at) => found.charCodeAt(at))
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
  })
}
