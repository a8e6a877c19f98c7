/**
 * Proves that the tests of view, board and bell detect missing guards: one of the tests that a mutation names must fail with it. Takes a few
 * minutes. Prints one line per mutation and exits with 1 if no test detects one. An argument selects mutations by a part of their name.
 */
import { boardMutations } from '../test/board/mutations.js'
import { bellMutations } from '../test/ports/mutations.js'
import { runMutations } from '../test/support/mutants.js'
import { viewMutations } from '../test/view/mutations.js'

const [, , wanted = ''] = process.argv
const chosen = [...viewMutations, ...boardMutations, ...bellMutations].filter(({ name }) => name.includes(wanted))
let missed = 0
runMutations(chosen, ({ name }, failed) => {
  if (failed.length === 0) missed += 1
  process.stdout.write(`${failed.length === 0 ? 'NOT DETECTED' : `detected by ${failed.length}`}: ${name}\n`)
  for (const title of failed.slice(0, 4)) process.stdout.write(`    ${title}\n`)
})
process.exitCode = missed === 0 ? 0 : 1
