/**
 * Numbers and long texts for people, the same on the command line, in errors and in the dashboard. Without `Intl`: the first number that
 * it formats costs a process 6 MB.
 */

/** At most three decimal places, and a comma before each group of three digits. */
export function count(number: number): string {
  const [whole = '', part] = String(Math.round(number * 1_000) / 1_000).split('.')
  return `${whole.replace(/\B(?=(?:\d{3})+$)/g, ',')}${part === undefined ? '' : `.${part}`}`
}

/** A number with its noun: `1 turn`, `1,250 turns`. */
export const plural = (number: number, one: string, many = `${one}s`): string =>
  `${count(number)} ${number === 1 ? one : many}`

/** A part as whole percent: `67 %`; a dash if there is nothing to take a part of. */
export const percent = (part: number, all: number): string => (all === 0 ? '–' : `${Math.round((100 * part) / all)} %`)

/** At most `max` characters: a longer text ends with an ellipsis, and no character is cut in half. */
export const shortened = (text: string, max: number): string =>
  text.length <= max ? text : `${text.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '')}…`
