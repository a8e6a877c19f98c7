/**
 * Words that others wrote, made safe to look at. Everything an agent, a task or a file says is hostile: it may hold markup, control
 * characters, or marks that turn the reading direction around. Pure. React escapes markup; the rest is here.
 */
const names: Readonly<Record<string, string>> = {
  '\u202e': '⟪RLO⟫',
  '\u202d': '⟪LRO⟫',
  '\u200b': '⟪ZWSP⟫',
  '\ufeff': '⟪BOM⟫',
}
// Control characters but tab and newline, marks of direction, and characters without width: all of them would be invisible.
const hidden = /(?![\t\n])\p{Cc}|[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]|\p{Cs}/gu

/** Shows what would not be seen; a byte of a file's name that is no text becomes \xNN. */
export function visible(text: string): string {
  return text.replace(hidden, (letter) => {
    const code = letter.charCodeAt(0)
    if (letter === '\r') return ''
    if (code >= 0xdc80 && code <= 0xdcff) return `\\x${(code - 0xdc00).toString(16)}`
    if (code >= 0xd800 && code <= 0xdfff) return '\ufffd'
    return names[letter] ?? (code < 0x20 ? String.fromCharCode(0x2400 + code) : '\u00b7')
  })
}

/** In one line of at most so many characters. */
export function oneLine(text: string, most = 200): string {
  const flat = visible(text.slice(0, most * 4))
    .replace(/\s+/g, ' ')
    .trim()
  return flat.length > most ? `${flat.slice(0, most - 1)}…` : flat
}

export interface Piece {
  readonly text: string
  /** An http or https address; nothing else is ever a link. */
  readonly href?: string
}

const address = /\bhttps?:\/\/[^\s<>"'`\p{Cc}]{1,2000}/giu
// Text with more addresses than this is a flood, not a message.
const linksMax = 100

export function pieces(text: string): Piece[] {
  const out: Piece[] = []
  let from = 0
  let links = 0
  for (const found of text.matchAll(address)) {
    if (links === linksMax) break
    const told = found[0].replace(/[).,;:!?\]}]+$/, '')
    const href = safeUrl(told)
    if (href === undefined) continue
    if (found.index > from) out.push({ text: text.slice(from, found.index) })
    out.push({ text: told, href })
    from = found.index + told.length
    links += 1
  }
  if (from < text.length) out.push({ text: text.slice(from) })
  return out
}

export function safeUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  // A name before the host is how one site is dressed up as another.
  if ((url.protocol !== 'http:' && url.protocol !== 'https:') || url.username !== '' || url.password !== '')
    return undefined
  return url.href
}

/** The text of a card or an answer, whatever shape it has. */
export function wordsOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (content === null || content === undefined) return ''
  if (typeof content === 'object' && !Array.isArray(content)) {
    const { text, instruction, question, message } = content as Record<string, unknown>
    for (const said of [text, instruction, question, message]) if (typeof said === 'string') return said
  }
  return jsonOf(content)
}

export function jsonOf(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? ''
}

/** The end of an id, which is where two of them differ. */
export function shortId(id: string): string {
  return id.length <= 12 ? id : `…${id.slice(-8)}`
}

/** Names with ids in them: of each id only its end. */
export function shortNames(text: string): string {
  return text.replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{8}([0-9a-f]{4})\b/g, '…$1')
}

const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const

export function bytes(size: number | undefined | null): string {
  if (size === undefined || size === null || !Number.isFinite(size)) return '–'
  let value = size
  let unit = 0
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000
    unit += 1
  }
  return `${unit === 0 ? value : value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`
}

export function count(number: number): string {
  return number.toLocaleString('en-US')
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`
}
