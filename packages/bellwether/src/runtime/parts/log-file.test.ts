import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { systemClock } from '@bellwether/base'
import { expect, it } from 'vitest'
import { followLines, readLines } from '../../cli/shared/log-lines.js'
import { logFileOf, olderLogFile, openLogFile } from './log-file.js'
import { tempFolder } from '../../../test/support/disk/temp-folder.js'

function testData(): string {
  const folder = tempFolder('log')
  return folder
}

it('a log file that is too long becomes the older file, and other processes continue to append', () => {
  const data = testData()
  const file = openLogFile(data, 100)
  expect(statSync(file.path).mode & 0o777).toBe(0o600)
  appendFileSync(file.path, `${'a'.repeat(80)}\n`)
  file.limit()
  expect(statSync(file.path).size).toBe(81)
  appendFileSync(file.path, `${'b'.repeat(80)}\n`)
  file.limit()
  expect(readFileSync(olderLogFile(logFileOf(data)), 'utf8')).toMatch(/^a{80}\nb{80}\n$/)
  appendFileSync(file.path, 'c\n')
  expect(readFileSync(file.path, 'utf8')).toBe('c\n')
})

it('a follower reads whole lines, each once, also after the file was shortened', async () => {
  const file = openLogFile(testData(), 10)
  appendFileSync(file.path, 'one\ntw')
  const lines: string[] = []
  const end = readLines(file.path, 0, (line) => lines.push(line))
  expect([lines, end]).toEqual([['one'], 4])
  const over = new AbortController()
  const following = followLines(
    file.path,
    end,
    (line) => {
      lines.push(line)
      if (line === 'twoothree') {
        file.limit()
        appendFileSync(file.path, 'four\n')
      }
      if (line === 'four') over.abort()
    },
    { clock: systemClock, signal: over.signal },
  )
  appendFileSync(file.path, 'oothree\n')
  await following
  expect(lines).toEqual(['one', 'twoothree', 'four'])
})
