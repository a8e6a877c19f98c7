import fc from 'fast-check'
import { expect, it } from 'vitest'
import { lineReadMaxBytes } from './line.js'
import { scanLines } from './scan.js'

/** A file that returns at most `most` bytes per read. */
const fileOf = (bytes: Buffer, most: number) => ({
  read: async (buffer: Uint8Array, position: number) => {
    const part = bytes.subarray(position, position + Math.min(most, buffer.byteLength))
    buffer.set(part)
    return part.length
  },
})

async function scanned(bytes: Buffer, most: number, text: string, from = 0): Promise<[number, string][]> {
  const found: [number, string][] = []
  for await (const line of scanLines(fileOf(bytes, most), from, bytes.length, Buffer.from(text)))
    found.push([line.place, line.bytes.toString()])
  return found
}

it('finds the lines that contain a text, with their places, however the file is read', async () => {
  const lines = fc.array(fc.stringMatching(/^[ab\n]{0,6}$/), { maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(
      lines,
      fc.integer({ min: 1, max: 20 }),
      fc.constantFrom('', 'a', 'ab', 'bab'),
      async (parts, most, text) => {
        const whole = parts.join('\n')
        let place = 0
        const wanted: [number, string][] = []
        for (const line of whole.split('\n')) {
          if (line.includes(text)) wanted.push([place, line])
          place += line.length + 1
        }
        // Nothing comes after the last newline.
        if (whole.endsWith('\n') || whole === '') wanted.splice(text === '' ? wanted.length - 1 : wanted.length)
        expect(await scanned(Buffer.from(whole), most, text)).toEqual(wanted)
      },
    ),
  )
})

it('skips a line that is much longer than any line that counts', async () => {
  const bytes = Buffer.from(`before\n${'x'.repeat(2 * lineReadMaxBytes)}before\nbefore 2\n`)
  const found = await scanned(bytes, 2 ** 18, 'before')
  expect(found.map(([place, line]) => [place, line.slice(0, 10)])).toEqual([
    [0, 'before'],
    [bytes.length - 9, 'before 2'],
  ])
})
