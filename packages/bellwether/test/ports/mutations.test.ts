/** Tests that every mutation of the bell applies to the current code. bench/mutants.ts proves that the tests of the bell detect them. */
import { testThatMutationsApply } from '../support/mutation-tests.js'
import { bellMutations } from './mutations.js'

testThatMutationsApply(bellMutations)
