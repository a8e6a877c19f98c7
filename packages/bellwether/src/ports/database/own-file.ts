/**
 * Writes files in the folder of the database. If root starts Bellwether, the folder belongs to the account that runs the server, which
 * could replace a file by a link: no write, owner or mode goes through a link to another file.
 */
import { constants } from 'node:fs'
import { lchown, open, type FileHandle } from 'node:fs/promises'
import type { Account } from './program.js'

const { O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND, O_NOFOLLOW } = constants
const ways = { replace: O_WRONLY | O_CREAT | O_TRUNC, append: O_RDWR | O_CREAT | O_APPEND } as const

/** Fails with ELOOP if the path is a link. */
export async function openOwnFile(path: string, way: keyof typeof ways, account?: Account): Promise<FileHandle> {
  const file = await open(path, ways[way] | O_NOFOLLOW, 0o600)
  if (account?.ids !== undefined) await file.chown(account.ids.uid, account.ids.gid)
  return file
}

export async function writeOwnFile(
  path: string,
  text: string,
  { way = 'replace', account }: { readonly way?: keyof typeof ways; readonly account?: Account } = {},
): Promise<void> {
  const file = await openOwnFile(path, way, account)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Of a link, the link itself. */
export async function chownTo({ ids }: Account, path: string): Promise<void> {
  if (ids !== undefined) await lchown(path, ids.uid, ids.gid)
}
