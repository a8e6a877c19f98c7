/** The matrix must not flatter: what did not run is missing, and one failure outweighs any number of passes. */
import { describe, expect, it } from 'vitest'
import { conformance, idsInSpec, idsInTitle, table } from './conformance.js'

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
      '| T1 | a chapter is no requirement |',
      '| T1.1 | again |',
      '```',
      '| T6.6 | an example |',
      '```',
    ].join('\n')
    expect(idsInSpec(spec)).toEqual(['T1.1', 'W2.2f', 'V6.10', 'H1.1', 'T3.1a'])
  })

  it('takes IDs in brackets from anywhere in a test title, several at once', () => {
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
      { fullName: '[T1.3] asleep', status: 'skipped' },
    ],
  )

  it('calls a requirement passed only when every test that names it passed, and missing when none ran', () => {
    expect(matrix).toEqual({
      ids: {
        'T1.1': { status: 'passed', tests: ['[T1.1] one'] },
        'T1.2': { status: 'failed', tests: ['[T1.2] good', '[T1.2] bad'] },
        'T1.3': { status: 'missing', tests: ['[T1.3] asleep'] },
        'T1.4': { status: 'missing', tests: [] },
      },
    })
  })

  it('shows people the proofs, what is missing and the sums', () => {
    expect(table(matrix)).toContain('missing: T1.3 T1.4')
    expect(table(matrix)).toContain('4 requirements: 1 passed, 1 failed, 2 missing')
    expect(table(matrix)).toMatch(/^T1\.2 {2}failed {2}\[T1\.2\] good\n {14}\[T1\.2\] bad$/m)
  })
})
