/** Numbers in text for people, the same on the command line, in errors and in the dashboard. */

export const count = (number: number): string => number.toLocaleString('en-US')

/** A number with its noun: `1 turn`, `1,250 turns`. */
export const plural = (number: number, one: string, many = `${one}s`): string =>
  `${count(number)} ${number === 1 ? one : many}`
