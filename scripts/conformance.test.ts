/** The matrix never looks better than the run: a file that did not load fails its IDs, and one failure outweighs any number of passes. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { allResults, conformance, idsInSpec, idsInTitle, main, table } from './conformance.js'

describe('conformance', () => {
  it('takes IDs from the first cell of tables, from list items and from headings only', () => {
    const spec = [
      '| ID | Requirement |',
      '|---|---|',
      '| T1.1 | see T9.9 and | T8.8 | |',
      '| W2.2f **+** | ours |',
      '|`V6.10`| code |',
      '- **H1.1** a list item',
      '### T3.1a a heading',
      'T7.7 in a sentence',
      '| T1 | a chapter is not a requirement |',
      '| T1.1 | again |',
      '```',
      '| T6.6 | an example |',
      '```',
    ].join('\n')
    expect(idsInSpec(spec)).toEqual(['T1.1', 'W2.2f', 'V6.10', 'H1.1', 'T3.1a'])
  })

  it('takes one or several bracketed IDs from anywhere in a test title', () => {
    expect(idsInTitle('kernel [T1.1] > [W2.2a] [W2.10] ends [T1.2][T1.3] x[0] [not] T5.5')).toEqual([
      'T1.1',
      'W2.2a',
      'W2.10',
      'T1.2',
      'T1.3',
    ])
  })

  const matrix = conformance(
    ['T1.1', 'T1.2', 'T1.3', 'T1.4'],
    [
      { fullName: '[T1.1] one', status: 'passed' },
      { fullName: '[T1.2] good', status: 'passed' },
      { fullName: '[T1.2] bad', status: 'failed' },
      { fullName: '[T1.3] skipped', status: 'skipped' },
    ],
  )

  it('calls a requirement passed only if every test that names it passed, and missing if none ran', () => {
    expect(matrix).toEqual({
      ids: {
        'T1.1': { status: 'passed', tests: ['[T1.1] one'] },
        'T1.2': { status: 'failed', tests: ['[T1.2] good', '[T1.2] bad'] },
        'T1.3': { status: 'missing', tests: ['[T1.3] skipped'] },
        'T1.4': { status: 'missing', tests: [] },
      },
    })
  })

  it('prints the proofs, the missing IDs and the sums', () => {
    expect(table(matrix)).toContain('missing: T1.3 T1.4')
    expect(table(matrix)).toContain('4 requirements: 1 passed, 1 failed, 2 missing')
    expect(table(matrix)).toMatch(/^T1\.2 {2}failed {2}\[T1\.2\] good\n {14}\[T1\.2\] bad$/m)
  })

  it('fails the IDs of a file that did not load, although another file proves them', () => {
    const other = {
      name: 'b.test.ts',
      status: 'passed',
      assertionResults: [{ fullName: '[T1.1] x', status: 'passed' }],
    }
    const broken = { name: 'a.test.ts', status: 'failed', assertionResults: [] }
    const results = allResults([other, broken], [{ path: 'a.test.ts', text: `it('[T1.1] …'); it('[T1.2] …')` }])
    expect(conformance(['T1.1', 'T1.2'], results).ids).toMatchObject({
      'T1.1': { status: 'failed' },
      'T1.2': { status: 'failed' },
    })
  })

  it('fails the tests that a failed hook kept from running', () => {
    const skipped = { fullName: '[T1.1] behind the hook', status: 'skipped' }
    const file = { name: 'a.test.ts', status: 'failed', assertionResults: [skipped] }
    expect(conformance(['T1.1'], allResults([file], [])).ids['T1.1']?.status).toBe('failed')
  })

  it('calls the IDs of a tagged file missing if the run left it out, although another file proves them', () => {
    const other = {
      name: 'b.test.ts',
      status: 'passed',
      assertionResults: [{ fullName: '[T1.1] x', status: 'passed' }],
    }
    const results = allResults([other], [{ path: 'a.test.ts', text: '[T1.1]' }])
    expect(conformance(['T1.1'], results).ids['T1.1']?.status).toBe('missing')
  })
})

describe('conformance of a planted project', () => {
  let home = ''
  afterEach(() => rmSync(home, { recursive: true, force: true }))

  /** Runs the planted test files with the real vitest, then `conformance --strict`. */
  function strict(files: Readonly<Record<string, string>>): { code: number; output: string } {
    home = mkdtempSync(join(tmpdir(), 'bellwether-conformance-'))
    const planted = { 'docs/spec/page.md': '| T1.1 | a |\n| T1.2 | b |\n', ...files }
    for (const [path, text] of Object.entries(planted)) {
      mkdirSync(dirname(join(home, path)), { recursive: true })
      writeFileSync(join(home, path), text)
    }
    const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
    const args = ['run', '--globals', '--root', home, '--reporter=json', '--outputFile=.test-results/vitest.json']
    // Exits 1 if the planted tests fail.
    spawnSync(process.execPath, [vitest, ...args], { cwd: home, stdio: 'ignore' })
    const lines: unknown[] = []
    const out = { log: (line: unknown) => lines.push(line), error: (line: unknown) => lines.push(line) }
    return { code: main(['--strict'], home, out), output: lines.join('\n') }
  }

  const first = `it('[T1.1] holds', () => {})`
  const second = `it('[T1.2] holds', () => {})`

  it('passes if every requirement is proven', () => {
    expect(strict({ 'a.test.ts': first, 'b.test.ts': second })).toMatchObject({ code: 0 })
  })

  it('fails if a tagged file does not load', () => {
    const broken = `import './absent.js'\n${second}`
    const { code, output } = strict({ 'a.test.ts': `${first}\n${second}`, 'b.test.ts': broken })
    expect(output).toMatch(/^T1\.2 {2}failed/m)
    expect(code).toBe(1)
  })

  it('fails if a hook of a tagged file throws', () => {
    const broken = `beforeAll(() => { throw new Error('no server') })\n${second}`
    expect(strict({ 'a.test.ts': first, 'b.test.ts': broken })).toMatchObject({ code: 1 })
  })

  it('fails if no test names a requirement', () => {
    const { code, output } = strict({ 'a.test.ts': first })
    expect(output).toContain('missing: T1.2')
    expect(code).toBe(1)
  })
})
