/** Characters that control a terminal, or that make text look like other text. Pure. */

/** Control characters, marks that change the writing direction, unpaired surrogates and line separators. */
export const unsafeCharacters = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu

/** Several lines: line breaks and tabs stay, other unsafe characters become question marks. */
export function block(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replaceAll(unsafeCharacters, (found) => (found === '\n' || found === '\t' ? found : '?'))
}

/** One line: line breaks and tabs become spaces, other unsafe characters question marks. */
export function plain(text: string): string {
  return text.replaceAll(unsafeCharacters, (found) => (found === '\n' || found === '\t' ? ' ' : '?'))
}
