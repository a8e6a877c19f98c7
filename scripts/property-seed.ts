/**
 * Run before every test file: property tests draw from one seed, so that a run that passed passes again. Another seed explores:
 * `BELLWETHER_TEST_SEED=$RANDOM npx vitest run …`; what it finds becomes an example of its own in the test.
 */
import { env } from 'node:process'
import fc from 'fast-check'

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(env['BELLWETHER_TEST_SEED'] ?? 20260115) })
