/**
 * Chooses the account that runs PostgreSQL. PostgreSQL refuses to run as root, so root gives the folder to an unprivileged
 * account: the owner of an existing cluster, else `postgres`, else `bellwether` (created if needed), else `nobody`. Other users
 * run it as themselves. Access to a path is tested by running `test` as that account.
 */
import { lstat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Terminal } from '@bellwether/protocol'
import type { Layout } from './layout.js'
import { chownTo } from './own-file.js'
import { runProgram, type Account } from './program.js'

const ownAccount = 'bellwether'
const shortMs = 10_000

export async function chooseAccount(layout: Layout): Promise<Account> {
  const self = process.getuid?.()
  const owner = await lstat(layout.cluster).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (owner?.isDirectory() === false) throw notAFolder(layout.cluster)
  if (self !== 0) {
    if (owner && owner.uid !== self) throw foreignCluster(layout.cluster, owner.uid)
    return { name: `uid ${self}` }
  }
  if (owner && owner.uid !== 0) return { name: `uid ${owner.uid}`, ids: { uid: owner.uid, gid: owner.gid } }
  return (
    (await lookUp('postgres')) ??
    (await lookUp(ownAccount)) ??
    (await create(ownAccount)) ??
    (await lookUp('nobody')) ??
    noAccount()
  )
}

/** Gives the folder to the account and checks that the account can reach it. */
export async function grantFolder(account: Account, layout: Layout): Promise<void> {
  if (!account.ids) return
  await chownTo(account, layout.dataDir)
  await chownTo(account, layout.lock) // so that the account may later start by itself, without root
  await requireAccess(account, layout.dataDir, ['-w'])
}

async function requireAccess(account: Account, path: string, how: string[]): Promise<void> {
  if (await canAccess(account, path, how)) return
  const ancestors: string[] = []
  for (let at = dirname(path); at !== dirname(at); at = dirname(at)) ancestors.unshift(at)
  let blocking = path
  for (const folder of ancestors) {
    if (await canAccess(account, folder, ['-x'])) continue
    blocking = folder
    break
  }
  throw new Terminal(`Cannot start PostgreSQL: the account ${account.name} runs it and cannot enter "${blocking}"`, {
    code: 'folder_unreachable',
    hint: `Choose another folder with --data DIR, run chmod o+x ${blocking}, or run Bellwether as an ordinary user.`,
  })
}

export async function canAccess(account: Account, path: string, how: string[]): Promise<boolean> {
  return (await runProgram('test', [...how, path], { as: account, timeoutMs: shortMs })).ok
}

async function lookUp(name: string): Promise<Account | undefined> {
  const uid = await runProgram('id', ['-u', name], { timeoutMs: shortMs })
  const gid = await runProgram('id', ['-g', name], { timeoutMs: shortMs })
  if (!uid.ok || !gid.ok) return undefined
  const ids = { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  return ids.uid > 0 ? { name, ids } : undefined
}

async function create(name: string): Promise<Account | undefined> {
  const flags = ['--system', '--no-create-home', '--home-dir', '/nonexistent', '--shell', '/usr/sbin/nologin']
  const result = await runProgram('useradd', [...flags, name], { timeoutMs: shortMs })
  if (!result.ok) await runProgram('adduser', ['-S', '-D', '-H', name], { timeoutMs: shortMs }) // busybox
  return lookUp(name)
}

function foreignCluster(cluster: string, uid: number): Terminal {
  return new Terminal(`Cannot use the database in "${cluster}": it belongs to another user (uid ${uid})`, {
    code: 'folder_not_ours',
    hint: 'Run Bellwether as that user or as root, or choose another folder with --data DIR.',
  })
}

function notAFolder(cluster: string): Terminal {
  return new Terminal(`Cannot use the database in "${cluster}": it is a link or a file, not a folder`, {
    code: 'folder_not_ours',
    hint: 'Move the folder of the database back to its place, or choose another folder with --data DIR.',
  })
}

function noAccount(): never {
  throw new Terminal(
    'Cannot start PostgreSQL: it refuses to run as root, and no other account was found or could be created',
    { code: 'no_account', hint: 'Create a user named postgres, or run Bellwether as an ordinary user.' },
  )
}
