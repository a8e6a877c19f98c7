/**
 * Makes untrusted text safe to display. Everything that an agent, a task or a file provides may contain markup,
 * control characters or marks that reverse the reading direction. Pure. React escapes markup; this module handles the
 * rest.
 */
const names: Readonly<Record<string, string>> = {
  '\u202e': '⟪RLO⟫',
  '\u202d': '⟪LRO⟫',
  '\u200b': '⟪ZWSP⟫',
  '\ufeff': '⟪BOM⟫',
}
// Control characters except tab and newline, direction marks and zero-width characters: all would be invisible.
const hidden = /(?![\t\n])\p{Cc}|[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]|\p{Cs}/gu

/** Makes invisible characters visible; a byte of a file name that is not UTF-8 becomes \xNN. */
export function visible(text: string): string {
  return text.replace(hidden, (letter) => {
    const code = letter.charCodeAt(0)
    if (letter === '\r') return ''
    if (code >= 0xdc80 && code <= 0xdcff) return `\\x${(code - 0xdc00).toString(16)}`
    if (code >= 0xd800 && code <= 0xdfff) return '\ufffd'
    return names[letter] ?? (code < 0x20 ? String.fromCharCode(0x2400 + code) : '\u00b7')
  })
}

/** One line of at most `most` characters. */
export function oneLine(text: string, most = 200): string {
  const flat = visible(text.slice(0, most * 4))
    .replace(/\s+/g, ' ')
    .trim()
  return flat.length > most ? `${flat.slice(0, most - 1)}…` : flat
}

export interface Piece {
  readonly text: string
  /** An http or https URL; nothing else becomes a link. */
  readonly href?: string
}

const address = /\bhttps?:\/\/[^\s<>"'`\p{Cc}]{1,2000}/giu
// Text with more URLs than this is a flood, not a message.
const linksMax = 100

export function pieces(text: string): Piece[] {
  const out: Piece[] = []
  let from = 0
  let links = 0
  for (const found of text.matchAll(address)) {
    if (links === linksMax) break
    const url = found[0].replace(/[).,;:!?\]}]+$/, '')
    const href = safeUrl(url)
    if (href === undefined) continue
    if (found.index > from) out.push({ text: text.slice(from, found.index) })
    out.push({ text: url, href })
    from = found.index + url.length
    links += 1
  }
  if (from < text.length) out.push({ text: text.slice(from) })
  return out
}

export function safeUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  // A user name before the host makes one site look like another.
  if ((url.protocol !== 'http:' && url.protocol !== 'https:') || url.username !== '' || url.password !== '')
    return undefined
  return url.href
}

/** The text of a card or result of any form. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (content === null || content === undefined) return ''
  if (typeof content === 'object' && !Array.isArray(content)) {
    const { text, instruction, question, message } = content as Record<string, unknown>
    for (const candidate of [text, instruction, question, message]) if (typeof candidate === 'string') return candidate
  }
  return jsonOf(content)
}

export function jsonOf(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? ''
}

/** The end of an id, where ids differ. */
export function shortId(id: string): string {
  return id.length <= 12 ? id : `…${id.slice(-8)}`
}

/** Replaces each id in a name by its end. */
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

export { count, percent, plural } from '@bellwether/protocol/counts'
