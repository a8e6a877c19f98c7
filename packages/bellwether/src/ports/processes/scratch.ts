/**
 * The scratch folder of a turn: a short path outside the project with a home folder, a folder for temporary files, and room for sockets between the
 * worker and the turn's programs. It is removed when the turn ends; its name contains the worker that made it, so that the next worker removes
 * what a killed one left.
 */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, lchownSync, lstatSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readProcess, type Self } from './proc.js'

export interface Account {
  readonly uid: number
  readonly gid: number
}

export interface Scratch {
  /** Short, because the path of a socket may have 107 characters. Programs of the turn cannot write to the folder itself. */
  readonly path: string
  /** Of this process, also if programs run as another account: who fills the folder hands it over. */
  readonly home: string
  readonly temporary: string
  /** Offers sockets and files of the worker to the turn's programs, which cannot write to it. */
  readonly shared: string
  /** Of the turn's programs, if it is not that of this process. */
  readonly account: Account | undefined
  readonly remove: () => void
}

const prefix = 'bw-'
const randomBytesInName = 5
// More than one machine has turns at the same time; the next sweep finds the others.
const sweptMax = 10_000

const nameOf = ({ namespace, workerPid, workerStart }: Self) =>
  [namespace, workerPid, workerStart].map((part) => Number(part).toString(36)).join('-')

/** `account` is the one that runs the turn's programs, if it is not that of this process. */
export function makeScratch(self: Self, account?: Account): Scratch {
  const path = join(tmpdir(), `${prefix}${nameOf(self)}-${randomBytes(randomBytesInName).toString('hex')}`)
  // Another account must be able to pass through.
  mkdirSync(path, { mode: account === undefined ? 0o700 : 0o711 })
  const inside = (name: string, mode = 0o700) => {
    const folder = join(path, name)
    mkdirSync(folder, { mode })
    return folder
  }
  const temporary = inside('tmp')
  if (account !== undefined) lchownSync(temporary, account.uid, account.gid)
  return {
    path,
    home: inside('home'),
    temporary,
    shared: inside('shared', account === undefined ? 0o700 : 0o711),
    account,
    remove: () => (account === undefined ? removeFolder(path) : removeForeign(path)),
  }
}

/**
 * Gives a folder and what it contains to another account, the folder last: until then that account cannot enter it, and so cannot put
 * a link where this process changes an owner.
 */
export function handOver(folder: string, { uid, gid }: Account): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) handOver(path, { uid, gid })
    else lchownSync(path, uid, gid)
  }
  lchownSync(folder, uid, gid)
}

const removalMs = 60_000

/** `rm` does not follow a link that a program of the other account puts in the place of a folder while it works. Node's own removal may. */
function removeForeign(path: string): void {
  execFileSync('rm', ['-rf', '--', path], { timeout: removalMs, stdio: 'ignore' })
}

/** Removes the scratch folders of workers that have ended. Returns how many. */
export function sweepScratch(self: Self, folder = tmpdir()): number {
  const own = process.geteuid?.()
  const left = readdirSync(folder)
    .filter((name) => name.startsWith(prefix))
    .slice(0, sweptMax)
    .filter((name) => {
      const [namespace, pid, start] = name
        .slice(prefix.length)
        .split('-')
        .map((part) => Number.parseInt(part, 36))
      if (namespace !== Number(self.namespace) || pid === undefined || !Number.isSafeInteger(pid)) return false
      const worker = readProcess(pid)
      if (worker !== undefined && !worker.zombie && Number(worker.start) === start) return false
      return lstatSync(join(folder, name), { throwIfNoEntry: false })?.uid === own
    })
  for (const name of left) removeFolder(join(folder, name))
  return left.length
}

/** Also removes folders that a program made read-only, as package managers do. */
function removeFolder(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true })
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code !== 'EACCES' && code !== 'EPERM' && code !== 'ENOTEMPTY') throw error
    openFolders(path)
    rmSync(path, { recursive: true, force: true })
  }
}

function openFolders(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return
  chmodSync(path, 0o700)
  for (const entry of readdirSync(path, { withFileTypes: true }))
    if (entry.isDirectory()) openFolders(join(path, entry.name))
}
