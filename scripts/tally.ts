/**
 * Prints the last line of `npm test`: reads vitest's JSON and the names of the failed steps, prints
 * `N passed, N failed, N skipped` and exits 1 if anything failed. A test file that did not load, a crashed run, and a failed
 * build, check or conformance step each count as one failure, so the line never looks better than the run.
 */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

interface Results {
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message?: string
    readonly assertionResults: readonly { readonly status: string }[]
  }[]
}

export interface Tally {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  /** One line per failure that is not a failed test. */
  readonly notes: readonly string[]
}

export function tally(results: Results | undefined, brokenSteps: readonly string[]): Tally {
  const counts = { passed: 0, failed: 0, skipped: 0 }
  const notes: string[] = []
  for (const file of results?.testResults ?? []) {
    for (const { status } of file.assertionResults) {
      if (status === 'passed') counts.passed += 1
      else if (status === 'failed') counts.failed += 1
      else counts.skipped += 1
    }
    const failedTests = file.assertionResults.some((test) => test.status === 'failed')
    if (file.status === 'failed' && !failedTests) notes.push(`test file failed to load: ${file.name}`)
  }
  if (results === undefined) notes.push('the test run left no results')
  for (const step of brokenSteps) if (step !== 'test') notes.push(`step failed: ${step}`)
  const testStepFailed = brokenSteps.includes('test')
  if (
    testStepFailed &&
    counts.failed === 0 &&
    results !== undefined &&
    !notes.some((note) => note.startsWith('test file'))
  )
    notes.push('vitest failed outside of any test (an unhandled error, or no test was found)')
  return { ...counts, failed: counts.failed + notes.length, notes }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [path = '', ...brokenSteps] = process.argv.slice(2)
  const results = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Results) : undefined
  const { passed, failed, skipped, notes } = tally(results, brokenSteps)
  for (const note of notes) console.error(`!! ${note}`)
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`)
  process.exitCode = failed > 0 || brokenSteps.length > 0 ? 1 : 0
}
