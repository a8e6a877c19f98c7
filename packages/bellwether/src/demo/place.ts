/**
 * Where the demo lives: in the folder it is told, or, when root's PostgreSQL account cannot reach that one, in a folder under /tmp that
 * belongs to it for good, so that the next start finds the same house again. Always: one demo at a time; the project folder holds
 * what a user's would, and run-time files lie beside it.
 */
import { createHash } from 'node:crypto'
import { lstat, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { chooseAccount, grantFolder } from '../ports/database/account.js'
import { takeFolderLock, type FolderLock } from '../ports/database/folder-lock.js'
import { layoutOf, makeFolder } from '../ports/database/layout.js'
import { projectFiles } from './cast.js'
import type { DemoModel } from './real-model.js'

export interface Place {
  /** Settings, agents, tools, policies, tasks: what `up` runs in. */
  readonly project: string
  /** The database and the keys: `up --data`. */
  readonly dataDir: string
  readonly logFile: string
  /** Nobody else plays here until it is let go. */
  readonly lock: FolderLock
}

/** Where `up --data` puts its database. */
export const databaseOf = (dataDir: string) => join(dataDir, 'database')

export async function openPlace(wanted: string, notice: (sentence: string) => void): Promise<Place> {
  const folder = await reachable(resolve(wanted), notice)
  const project = join(folder, 'project')
  await mkdir(project, { recursive: true })
  const lock = await takeFolderLock(join(folder, 'lock'))
  return { project, dataDir: join(folder, 'run'), logFile: join(folder, 'house.log'), lock }
}

/** The project as its files say; what an earlier run has printed is thrown away, so that a claim is a claim of today. */
export async function writeProject(project: string, model: DemoModel): Promise<void> {
  for (const made of ['pages', 'columns']) await rm(join(project, made), { recursive: true, force: true })
  for (const [path, text] of Object.entries(projectFiles(model))) {
    const file = join(project, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, text)
  }
}

/** The folder, or one that the database's account can reach. */
async function reachable(folder: string, notice: (sentence: string) => void): Promise<string> {
  await mkdir(folder, { recursive: true }).catch((error: unknown) => {
    throw new InvalidInput(`${folder} cannot be made: ${errorMessage(error)}`, {
      code: 'cannot_write',
      cause: error,
      hint: 'name a folder that you may write to with --data DIR',
    })
  })
  const layout = layoutOf(databaseOf(join(folder, 'run')))
  try {
    await makeFolder(layout)
    await openable(layout)
    return folder
  } catch (error) {
    if (!(error instanceof Terminal) || error.code !== 'folder_unreachable') throw error
    const mark = createHash('sha256').update(folder).digest('hex').slice(0, 12)
    const elsewhere = join(tmpdir(), `bellwether-demo-${mark}`)
    notice(`${error.message}; using ${elsewhere} instead`)
    await ownFolder(elsewhere)
    return elsewhere
  }
}

/** Anybody may make a folder in /tmp, and what stands in a project folder is run: it must be ours, and nobody else's to change. */
async function ownFolder(folder: string): Promise<void> {
  await mkdir(folder, { mode: 0o755 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const found = await lstat(folder)
  if (found.isDirectory() && found.uid === process.getuid?.() && (found.mode & othersWrite) === 0) return
  throw new Terminal(`${folder} is there already and belongs to somebody else`, {
    code: 'folder_not_ours',
    hint: 'name another folder with --data DIR',
  })
}

const othersWrite = 0o022

async function openable(layout: ReturnType<typeof layoutOf>): Promise<void> {
  await writeFile(layout.lock, '', { flag: 'a' }) // its owner is about to change with the folder's
  await grantFolder(await chooseAccount(layout), layout)
}
