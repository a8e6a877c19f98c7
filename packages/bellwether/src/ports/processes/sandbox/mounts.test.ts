import { rmSync, writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { systemMounts } from './mounts.js'

it.runIf(process.geteuid?.() === 0)('hides the private files of the system, and none that was removed since', () => {
  const file = `/etc/bellwether-test-${process.pid}`
  writeFileSync(file, 'secret', { mode: 0o600 })
  const hide = { kind: 'read', from: '/dev/null', to: file }
  try {
    expect(systemMounts(true)).toContainEqual(hide)
  } finally {
    rmSync(file)
  }
  // The list of private files is read once per process.
  expect(systemMounts(true)).not.toContainEqual(hide)
})
