/** Tests that every mutation applies to the current code, and that the tests of the board detect one of them, another each day. */
import { testThatMutationsApply, testThatOneIsDetected } from '../support/mutation-tests.js'
import { boardMutations } from './mutations.js'

testThatMutationsApply(boardMutations)

testThatOneIsDetected('board', boardMutations)
