/** Colours for a terminal. Off if the stream is not a terminal, with NO_COLOR (https://no-color.org) and with TERM=dumb. */
import { environment } from '@bellwether/base'

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const
type Colour = keyof typeof codes

/** Callers pass sanitized text. */
export type Paint = (colour: Colour, text: string) => string

export function paintFor(stream: { readonly isTTY?: boolean }): Paint {
  const { NO_COLOR: off = '', TERM: term } = environment()
  const isOn = stream.isTTY === true && off === '' && term !== 'dumb'
  return (colour, text) => (isOn ? `\u001b[${codes[colour]}m${text}\u001b[0m` : text)
}
