/**
 * Numbers, lengths of time and long texts for people, the same on the command line, in errors and in the dashboard. Without `Intl`: the first number that
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

/** A length of time with at most two units, of which the second is left out if it is zero: `850 ms`, `3.2 s`, `1 min 5 s`, `2 h`, `4 d 3 h`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return '–'
  if (Math.round(ms) < 1_000) return `${Math.round(ms)} ms`
  const tenths = Math.round(ms / 100)
  return tenths < 600 ? `${(tenths / 10).toFixed(1)} s` : wholeDuration(Math.max(60, Math.floor(ms / 1_000)))
}

/** The same of whole seconds: `7 s`. */
export function wholeDuration(seconds: number): string {
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return twoUnits(minutes, 'min', seconds % 60, 's')
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? twoUnits(hours, 'h', minutes % 60, 'min') : twoUnits(Math.floor(hours / 24), 'd', hours % 24, 'h')
}

const twoUnits = (large: number, unit: string, small: number, smallUnit: string) =>
  small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${smallUnit}`
