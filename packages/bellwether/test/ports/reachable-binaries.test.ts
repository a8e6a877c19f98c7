import { chmod, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { grantFolder, canAccess } from '../../src/ports/database/account.js'
import { layoutOf, makeFolder } from '../../src/ports/database/layout.js'
import type { Account } from '../../src/ports/database/program.js'
import { reachableBinaries } from '../../src/ports/database/reachable-binaries.js'
import { testFolder } from '../support/postgres.js'

/** Programs in a private folder, and a database folder next to it. */
async function scene() {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const bin = join(folder, 'private/native/bin')
  await mkdir(bin, { recursive: true })
  const binaries = { initdb: join(bin, 'initdb'), postgres: join(bin, 'postgres'), major: 18 }
  for (const path of [binaries.initdb, binaries.postgres]) {
    await writeFile(path, '#!/bin/sh\n')
    await chmod(path, 0o755)
  }
  await chmod(join(folder, 'private'), 0o700)
  const layout = layoutOf(join(folder, 'postgres'))
  await makeFolder(layout)
  await writeFile(layout.lock, '')
  return { binaries, layout }
}

it('uses the installed programs if they run as the current account', async () => {
  const { binaries, layout } = await scene()
  expect(await reachableBinaries({ name: 'me' }, layout, binaries)).toBe(binaries)
})

it('copies programs from a private folder once, so that the account of the server can run them', async () => {
  // Only root can hand work to another account; for anyone else the rule above is the whole rule.
  if (process.getuid?.() !== 0) return
  const { binaries, layout } = await scene()
  const account: Account = { name: 'nobody', ids: { uid: 65_534, gid: 65_534 } }
  await grantFolder(account, layout)
  expect(await canAccess(account, binaries.postgres, ['-x'])).toBe(false)
  const copied = await reachableBinaries(account, layout, binaries)
  expect(copied.postgres.startsWith(layout.dataDir)).toBe(true)
  expect(await canAccess(account, copied.postgres, ['-x'])).toBe(true)
  expect(await reachableBinaries(account, layout, binaries)).toEqual(copied)
  // The folder with the copy in it is still ours.
  await makeFolder(layout)
})
