/** Tests that every mutation applies to the current code, and that the tests of the view detect one of them, another each day. */
import { testThatMutationsApply, testThatOneIsDetected } from '../support/mutation-tests.js'
import { viewMutations } from './mutations.js'

testThatMutationsApply(viewMutations)

testThatOneIsDetected('view', viewMutations)
