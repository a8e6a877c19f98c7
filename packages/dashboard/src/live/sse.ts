/**
 * Server-sent events, parsed by hand because the browser's own EventSource cannot send a key. Pure: bytes of any cut go in as text,
 * whole messages come out, as the HTML standard reads them.
 */
export interface Message {
  readonly event: string
  readonly data: string
  /** Where to go on after it. */
  readonly id: string | undefined
}

// A larger message cannot be one of our events: close the stream instead of filling the tab's memory.
const bufferMax = 8 * 1_024 * 1_024

export interface Parser {
  /** Throws when a message grows without end. */
  push(text: string): Message[]
  lastId(): string | undefined
}

export function makeParser(): Parser {
  let rest = ''
  let event = ''
  let data: string[] = []
  let id: string | undefined
  let isFirst = true
  /** How much of `rest` has no end of a line in it: a long message is not looked through again with every piece. */
  let scanned = 0

  function take(line: string, out: Message[]): void {
    if (line === '') {
      if (data.length > 0) out.push({ event: event === '' ? 'message' : event, data: data.join('\n'), id })
      event = ''
      data = []
      return
    }
    const colon = line.indexOf(':')
    if (colon === 0) return
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1))
    if (field === 'event') event = value
    else if (field === 'data') data.push(value)
    else if (field === 'id' && !value.includes('\0')) id = value
  }

  return {
    lastId: () => id,
    push(text) {
      const out: Message[] = []
      rest += isFirst && text.startsWith('\ufeff') ? text.slice(1) : text
      if (text !== '') isFirst = false
      let from = 0
      for (;;) {
        const end = endOfLine(rest, Math.max(from, scanned))
        if (end === undefined) break
        take(rest.slice(from, end.at), out)
        from = end.next
      }
      rest = rest.slice(from)
      scanned = Math.max(0, rest.length - 1)
      if (rest.length + data.reduce((sum, line) => sum + line.length, 0) > bufferMax)
        throw new Error('a message has no end')
      return out
    },
  }
}

const lineEnd = /[\r\n]/g

/** A carriage return at the very end may be half of a pair: wait for what follows. */
function endOfLine(text: string, from: number): { at: number; next: number } | undefined {
  lineEnd.lastIndex = from
  const at = lineEnd.exec(text)?.index
  if (at === undefined) return undefined
  if (text[at] === '\n') return { at, next: at + 1 }
  if (at + 1 === text.length) return undefined
  return { at, next: text[at + 1] === '\n' ? at + 2 : at + 1 }
}
