import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ByteTable } from './byte-table.js'

it('ByteTable numbers byte strings like a Map, also when it grows', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 6 }), { maxLength: 4_000 }), fc.boolean(), (words, roomy) => {
      const [table, map] = [new ByteTable(), new Map<string, number>()]
      if (roomy) table.expect(2_000, 4)
      for (const word of words) {
        const bytes = Buffer.from(`<${word}>`)
        expect(table.find(bytes, 1, bytes.length - 1)).toBe(map.get(word) ?? -1)
        if (map.has(word)) continue
        table.addMissing(bytes, 1, bytes.length - 1)
        map.set(word, map.size)
      }
      expect(table.size).toBe(map.size)
    }),
    { numRuns: 50 },
  )
})
