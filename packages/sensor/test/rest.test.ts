/** Tests that idle scan threads stop and start again when needed. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { openScanner } from '../src/scan/scanner.js'
import { until } from './support/fixture.js'

const threads = () => readdirSync('/proc/self/task').length

it('an idle scanner stops its threads and can scan again', async () => {
  const root = mkdtempSync(join(tmpdir(), 'bw-rest-'))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  mkdirSync(join(root, 'a'))
  const scanner = openScanner({ root, threads: 2, idleMs: 300 })
  onTestFinished(() => scanner.close())
  const scan = () => scanner.scan({ mode: 'directories', from: ['/'], recursive: true })
  const [first, second] = [await scan(), threads()]
  expect(first.directories).toBe(2)
  await until('both threads have stopped', () => threads() <= second - 2)
  expect((await scan()).directories).toBe(2)
})
