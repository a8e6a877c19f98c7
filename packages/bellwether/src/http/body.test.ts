import { describe, expect, it } from 'vitest'
import { readJson, valuesMax } from './body.js'

const read = (text: string) => readJson(Buffer.from(text), { bytesMax: 8_388_608, valuesMax })

describe('readJson', () => {
  it.each([
    ['numbers', `[${'0,'.repeat(valuesMax)}0]`],
    ['empty objects', `{"a":[${'{},'.repeat(valuesMax)}{}]}`],
    ['empty texts', `[${'"",'.repeat(valuesMax)}""]`],
    ['keys', `{${'"a":1,'.repeat(valuesMax)}"b":2}`],
  ])('rejects a body with too many %s before it is parsed', async (_what, text) => {
    await expect(read(text)).rejects.toMatchObject({ code: 'too_large' })
  })

  it('does not count what is inside of texts', async () => {
    const text = 'a,[{\\"\n'.repeat(valuesMax)
    expect(await read(JSON.stringify({ text, more: ['\\', '"'] }))).toEqual({ text, more: ['\\', '"'] })
  })

  it('reads as many values as are allowed', async () => {
    const numbers = Array.from({ length: valuesMax - 1 }, () => 10)
    expect(await read(JSON.stringify(numbers))).toEqual(numbers)
  })

  it.each(['constructor', '__proto__', 'br'])(
    'rejects the encoding %s, which names no decompression',
    async (encoding) => {
      await expect(readJson(Buffer.from('{}'), { encoding, bytesMax: 100 })).rejects.toMatchObject({
        code: 'unsupported_encoding',
      })
    },
  )
})
