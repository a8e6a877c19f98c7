/** Names survive the wire: any bytes, through text and JSON, and back. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeFileName, encodeFileName } from './file-names.js'

const throughJson = (text: string): string => JSON.parse(JSON.stringify(text)) as string

describe('file names on the wire', () => {
  it('[V6.1] any bytes come back unchanged through text and JSON', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        expect(encodeFileName(throughJson(decodeFileName(bytes)))).toEqual(bytes)
      }),
    )
  })

  it('[V6.1] valid UTF-8 is itself', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const bytes = new TextEncoder().encode(text)
        expect(decodeFileName(bytes)).toBe(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes))
      }),
    )
  })

  it('[V6.1] an invalid byte becomes its lone surrogate, and JSON carries it as an escape', () => {
    const text = decodeFileName(Uint8Array.from([0x61, 0xff, 0xc3, 0x28, 0xed, 0xa0, 0x80]))
    expect(text).toBe('a\udcff\udcc3(\udced\udca0\udc80')
    expect(JSON.stringify(text)).toBe(String.raw`"a\udcff\udcc3(\udced\udca0\udc80"`)
  })

  it('[V6.1] two names that differ only in invalid bytes stay two names', () => {
    expect(decodeFileName(Uint8Array.of(0xfe))).not.toBe(decodeFileName(Uint8Array.of(0xff)))
  })

  it('[V6.1] text that cannot come from a name is refused', () => {
    expect(() => encodeFileName('\ud800')).toThrow('no file has such a name')
    expect(() => encodeFileName('\udc41')).toThrow('no file has such a name')
  })
})
