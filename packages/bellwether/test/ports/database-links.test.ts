/** Root writes into the folder of the database, which belongs to another account: a link there must not lead a write elsewhere. */
import { chown, lstat, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { chooseAccount, grantFolder } from '../../src/ports/database/account.js'
import { writeConf } from '../../src/ports/database/cluster.js'
import { takeFolderLock } from '../../src/ports/database/folder-lock.js'
import { savePort } from '../../src/ports/database/launch.js'
import { layoutOf, makeFolder, type Layout } from '../../src/ports/database/layout.js'
import type { Account } from '../../src/ports/database/program.js'
import { openServerLog } from '../../src/ports/database/server-log.js'
import { testFolder } from '../support/postgres.js'

const isRoot = process.getuid?.() === 0
/** As an ordinary user the folder is one's own, and no owner changes. */
const account: Account = isRoot ? { name: 'nobody', ids: { uid: 65_534, gid: 65_534 } } : { name: 'me' }

async function scene() {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const victim = join(folder, 'victim')
  await writeFile(victim, 'precious')
  const layout = layoutOf(join(folder, 'database'))
  await makeFolder(layout)
  await mkdir(layout.cluster)
  return { victim, layout }
}

const writes: readonly (readonly [string, (layout: Layout) => string, (layout: Layout) => Promise<unknown>])[] = [
  ['the lock', ({ lock }) => lock, ({ lock }) => takeFolderLock(lock)],
  ['the port', ({ lastPort }) => lastPort, (layout) => savePort({ layout, account, binaries: none, port: 0 }, 1)],
  ['the log', ({ log }) => log, async ({ log }) => (await openServerLog(log, account)).close()],
  ['the settings', ({ conf }) => `${conf}.new`, (layout) => writeConf(layout, account, {})],
]
const none = { initdb: '', postgres: '', major: 18 }

it.each(writes)('does not write %s through a link, and gives its target to no one', async (_what, pathOf, write) => {
  const { victim, layout } = await scene()
  const before = await lstat(victim)
  await symlink(victim, pathOf(layout))
  if (isRoot) await chown(dirname(pathOf(layout)), 65_534, 65_534)
  await expect(write(layout)).rejects.toMatchObject({ code: 'ELOOP' })
  expect(await readFile(victim, 'utf8')).toBe('precious')
  expect((await lstat(victim)).uid).toBe(before.uid)
})

it('gives the link to the account of the server, not the file that it leads to', async () => {
  if (!isRoot) return // only root can change owners
  const { victim, layout } = await scene()
  await symlink(victim, layout.lock)
  // The folder of a test is private to root.
  await grantFolder(account, layout).catch(() => undefined)
  expect((await lstat(victim)).uid).toBe(0)
  expect((await lstat(layout.lock)).uid).toBe(65_534)
})

it('refuses a cluster that is a link', async () => {
  const { layout, victim } = await scene()
  await rm(layout.cluster, { recursive: true })
  await symlink(dirname(victim), layout.cluster)
  await expect(chooseAccount(layout)).rejects.toMatchObject({ code: 'folder_not_ours' })
})
