/**
 * Gives the tests of a file a state folder of their own. Data folders of projects lie there and not in the account's own state folder, and
 * they are removed after the last test. The account of an embedded PostgreSQL can enter it. Messages name `bellwether`, also if npx started the tests.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

const home = mkdtempSync(join(tmpdir(), 'bellwether-test-state-'))
chmodSync(home, 0o755)
process.env['XDG_STATE_HOME'] = home
delete process.env['npm_command']
afterAll(() => rmSync(home, { recursive: true, force: true }))
