/** The line that CI reads never looks better than the run. */
import { describe, expect, it } from 'vitest'
import { tally } from './tally.js'

const file = (status: string, ...tests: string[]) => ({
  name: 'a.test.ts',
  status,
  assertionResults: tests.map((test) => ({ status: test })),
})

describe('tally', () => {
  it('counts passed, failed and skipped tests', () => {
    const results = { testResults: [file('failed', 'passed', 'failed'), file('passed', 'passed', 'skipped', 'todo')] }
    expect(tally(results, ['test'])).toEqual({ passed: 2, failed: 1, skipped: 2, notes: [] })
  })

  it('counts a test file that did not load as one failure', () => {
    expect(tally({ testResults: [file('failed'), file('passed', 'passed')] }, ['test'])).toMatchObject({
      passed: 1,
      failed: 1,
    })
  })

  it('counts a failed build, check or conformance step as one failure each, although every test passed', () => {
    expect(tally({ testResults: [file('passed', 'passed')] }, ['build', 'check', 'conformance'])).toMatchObject({
      passed: 1,
      failed: 3,
    })
  })

  it('counts a run that crashed or failed outside of any test as one failure', () => {
    expect(tally(undefined, ['test'])).toMatchObject({ passed: 0, failed: 1 })
    expect(tally({ testResults: [file('passed', 'passed')] }, ['test'])).toMatchObject({ passed: 1, failed: 1 })
    expect(tally({ testResults: [] }, ['test'])).toMatchObject({ passed: 0, failed: 1 })
  })
})
