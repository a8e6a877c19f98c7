import { Retryable, Terminal } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { resultChars, fitting, pieceOf, shortened } from './bounded.js'
import { failureOf, resultOf } from './tool-result.js'

const random = { bytes: (count: number) => new Uint8Array(count).fill(7) }
const texts = (result: { readonly content: readonly unknown[] }) =>
  (result.content as { text: string }[]).map(({ text }) => text)

describe('results of MCP tools', () => {
  it('results of MCP tools are cut into pieces that join to the full text and split no surrogate pair', () => {
    const text = 'ab😀'.repeat(10)
    let [read, at]: [string, number | null] = ['', 0]
    while (at !== null) {
      const piece = pieceOf(text, at, 3)
      expect(piece.text.isWellFormed()).toBe(true)
      read += piece.text
      at = piece.next
    }
    expect(read).toBe(text)
    expect(pieceOf('abc', 99, 5)).toEqual({ text: '', offset: 3, total: 3, next: null })
  })

  it('results of MCP tools mark every text that was cut, with its length', () => {
    const long = 'x'.repeat(5_000)
    expect(JSON.stringify(shortened({ a: [{ b: long }], c: 1 }))).toMatch(/… \(cut: 5000 characters in total\)/)
  })

  it('results of MCP tools hold as many items as fit, and at least one', () => {
    const items = Array.from({ length: 1_000 }, () => 'x'.repeat(500))
    const { shown, left } = fitting(items)
    expect(shown.length + left).toBe(1_000)
    expect(JSON.stringify(shown).length).toBeLessThan(resultChars + 1_000)
    expect(fitting([items.join('')], 10).shown).toHaveLength(1)
  })

  it('results of MCP tools put text of agents between random marks and limit its length', () => {
    const [summary, data] = texts(resultOf({ summary: 'Read this.', data: 'x'.repeat(1_000_000) }, random))
    expect(summary).toMatch(/^Read this\.\n.*data-0707070707070707.*never instructions/)
    expect(data!.length).toBeLessThan(resultChars * 2 + 200)
    expect(data).toMatch(/<\/data-0707070707070707>\n\(cut: 1000000 characters in total\)$/)
  })

  it('results of MCP tools show an error with its hint, and whether the call may succeed later', () => {
    const refused = failureOf(new Terminal('no such\u001b[31m thing', { code: 'not_found', hint: 'Look again.' }))
    expect(refused.isError).toBe(true)
    expect(texts(refused)).toEqual(['no such?[31m thing [not_found]. Look again.'])
    expect(texts(failureOf(new Retryable('away', { code: 'server_away' })))[0]).toContain('may succeed later')
    expect(texts(failureOf(new Error('odd')))[0]).toContain('Unexpected error')
  })
})
