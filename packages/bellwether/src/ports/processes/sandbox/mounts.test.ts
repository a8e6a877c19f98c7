import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { secretsIn, systemMounts } from './mounts.js'

it('hides the private files of the system, and none that was removed since', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bellwether-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const [secret, readable] = [join(folder, 'sub', 'secret'), join(folder, 'sub', 'readable')]
  mkdirSync(join(folder, 'sub'))
  chmodSync(join(folder, 'sub'), 0o755)
  writeFileSync(secret, '')
  chmodSync(secret, 0o640)
  writeFileSync(readable, '')
  chmodSync(readable, 0o644)
  const secrets = secretsIn(folder)
  expect(secrets).toEqual([secret])

  const mount = { kind: 'read', from: '/dev/null', to: secret }
  expect(systemMounts(true, () => secrets)).toContainEqual(mount)
  expect(systemMounts(false, () => secrets)).not.toContainEqual(mount)
  rmSync(secret)
  expect(systemMounts(true, () => secrets)).not.toContainEqual(mount)
})
