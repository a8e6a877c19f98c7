/**
 * Proves that the view's tests detect missing guards: one of the tests that a mutation of test/view/mutations.ts names must fail
 * with it. Takes one to two minutes. Prints one line per mutation and exits with 1 if no test detects one.
 */
import { runMutations } from '../test/view/mutants.js'
import { viewMutations } from '../test/view/mutations.js'

let missed = 0
runMutations(viewMutations, ({ name }, failed) => {
  if (failed.length === 0) missed += 1
  process.stdout.write(`${failed.length === 0 ? 'NOT DETECTED' : `detected by ${failed.length}`}: ${name}\n`)
  for (const title of failed.slice(0, 4)) process.stdout.write(`    ${title}\n`)
})
process.exitCode = missed === 0 ? 0 : 1
