/** Numbers as options take them: checked where they are typed, with the bounds in the answer. */
import { InvalidArgumentError } from 'commander'

export function wholeUpTo(max: number, min = 0): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d+$/.test(text) && number >= min && number <= max) return number
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
  }
}
