import { expect, it } from 'vitest'
import type { Database, Statement } from './database.js'
import { limitUse } from './limit-use.js'

/** A database whose statements end when the test says so. */
function heldDatabase() {
  const running: { readonly text: string; readonly end: () => void; readonly fail: () => void }[] = []
  const query = <Row extends object>({ text }: Statement) =>
    new Promise<Row[]>((resolve, reject) => {
      running.push({ text, end: () => resolve([]), fail: () => reject(new Error('lost')) })
    })
  const db: Database = { query, transaction: (run) => run({ query }), close: async () => {} }
  return { db, running, texts: () => running.map(({ text }) => text) }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

it('limitUse runs at most so many statements and transactions at once, the others in their order', async () => {
  const { db, running, texts } = heldDatabase()
  const limited = limitUse(db, 2, { monotonicMs: () => 0 })
  const first = limited.query({ text: 'a' })
  const failing = limited.transaction((tx) => tx.query({ text: 'b' }))
  const [third, fourth] = [limited.query({ text: 'c' }), limited.query({ text: 'd' })]
  await settled()
  expect(texts()).toEqual(['a', 'b'])
  running[1]!.fail()
  await expect(failing).rejects.toThrow('lost')
  await settled()
  expect(texts()).toEqual(['a', 'b', 'c'])
  running[0]!.end()
  await first
  await settled()
  expect(texts()).toEqual(['a', 'b', 'c', 'd'])
  for (const { end } of running) end()
  await Promise.all([third, fourth])
})

it('limitUse refuses a statement that waited longer than the pool would, and runs later ones', async () => {
  const { db, running, texts } = heldDatabase()
  let nowMs = 0
  const limited = limitUse(db, 1, { monotonicMs: () => nowMs })
  const slow = limited.query({ text: 'slow' })
  const late = limited.query({ text: 'late' })
  nowMs = 8_000
  const next = limited.query({ text: 'next' })
  await settled()
  nowMs = 10_001
  running[0]!.end()
  await slow
  await expect(late).rejects.toMatchObject({ code: 'database_busy' })
  await settled()
  expect(texts()).toEqual(['slow', 'next'])
  running[1]!.end()
  await next
  const again = limited.query({ text: 'again' })
  await settled()
  expect(texts()).toEqual(['slow', 'next', 'again'])
  running[2]!.end()
  await again
})
