/**
 * Finds the running `up` of a folder by its file up.json in the folder's default data folder, which lies outside the project. The file
 * decides where commands are sent, so it counts only if this account wrote it.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, type Stats } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { errorMessage, hasCode } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { settingsFile } from '../../settings/load.js'
import { dataFolderOf, statsOf } from '../../runtime/data-folder.js'
import { logFileOf } from '../../runtime/parts/log-file.js'
import { adminKeyFile, upFile } from '../../runtime/paths.js'

export interface LocalUp {
  readonly file: string
  readonly url: string
  readonly key: string | undefined
  readonly pid: number | undefined
  readonly project: string | undefined
  /** Null: its logs go to its stderr. */
  readonly logFile: string | null | undefined
}

export const isUnsafe = (found: LocalUp | InvalidInput | undefined): found is InvalidInput =>
  found instanceof InvalidInput

/** Whether its process exists. An `up` that was killed leaves its file behind. */
export function isRunning(found: LocalUp | InvalidInput | undefined): boolean {
  if (found === undefined || isUnsafe(found) || found.pid === undefined) return false
  try {
    return process.kill(found.pid, 0)
  } catch (error) {
    return hasCode(error, 'EPERM')
  }
}

/**
 * The `up` of this folder or of the nearest folder above it, up to the top of the project or the home folder. Returns an error for a
 * file that must not be used; a command that names its server does not need the file.
 */
export function findLocalUp(from: string): LocalUp | InvalidInput | undefined {
  for (const folder of projectFolders(from)) {
    const found = localUpIn(dataFolderOf(folder))
    if (found !== undefined) return found
  }
  return undefined
}

/** The `up` with this data folder. */
export function localUpIn(dataDir: string): LocalUp | InvalidInput | undefined {
  const file = join(dataDir, upFile)
  return statsOf(file) === undefined ? undefined : readLocalUp(file)
}

/** This folder and those above it, up to the top of the project or the home folder. */
function* projectFolders(from: string): Generator<string> {
  const home = resolve(homedir())
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    yield folder
    const isTop = ['.git', settingsFile].some((name) => statsOf(join(folder, name)) !== undefined)
    if (isTop || folder === home || folder === dirname(folder)) return
  }
}

/** The log file of the `up` of this folder, also of one that has ended. */
export function findLogFile(from: string): string | undefined {
  return [...projectFolders(from)]
    .map((folder) => logFileOf(dataFolderOf(folder)))
    .find((file) => statsOf(file) !== undefined)
}

function readLocalUp(file: string): LocalUp | InvalidInput {
  const folder = dirname(file)
  try {
    const problem = folderProblem(folder)
    if (problem !== undefined) return unsafe(file, problem)
    const text = readOwn(file)
    const { url, pid, project, dataDir, logFile } = JSON.parse(text) as Readonly<Record<string, unknown>>
    if (typeof url !== 'string') throw new Error('"url" is missing')
    return {
      file,
      url,
      pid: typeof pid === 'number' ? pid : undefined,
      project: typeof project === 'string' ? project : undefined,
      logFile: typeof logFile === 'string' || logFile === null ? logFile : undefined,
      key: readKey(join(typeof dataDir === 'string' ? dataDir : folder, adminKeyFile)),
    }
  } catch (error) {
    if (error instanceof InvalidInput) return error
    return new InvalidInput(`Cannot read ${file}: ${errorMessage(error)}`, {
      code: 'bad_up_file',
      cause: error,
      hint: 'another account may own the file: give --server URL and --key KEY; a running `bellwether up` rewrites it',
    })
  }
}

/** The text of a file that only this account can have written. */
function readOwn(file: string): string {
  // A symbolic link fails with ELOOP.
  const fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const facts = fstatSync(fd)
    if (!facts.isFile()) throw unsafe(file, 'it is not a regular file')
    if (!isMine(facts)) throw unsafe(file, `it belongs to another account (uid ${facts.uid})`)
    if ((facts.mode & 0o077) !== 0) throw unsafe(file, `its mode is ${modeOf(facts)} instead of 600`)
    return readFileSync(fd, 'utf8')
  } finally {
    closeSync(fd)
  }
}

function folderProblem(folder: string): string | undefined {
  const facts = lstatSync(folder)
  if (!facts.isDirectory()) return `${folder} is not a folder`
  if (!isMine(facts)) return `${folder} belongs to another account (uid ${facts.uid})`
  return (facts.mode & 0o022) === 0 ? undefined : `other accounts can write to ${folder} (mode ${modeOf(facts)})`
}

const isMine = ({ uid }: Stats) => uid === process.geteuid?.()
const modeOf = ({ mode }: Stats) => (mode & 0o777).toString(8)

function unsafe(file: string, problem: string): InvalidInput {
  return new InvalidInput(`Cannot use ${file}: ${problem}`, {
    code: 'unsafe_up_file',
    hint: 'start `bellwether up` in your own folder, or give --server URL and --key KEY',
  })
}

/** Undefined if the file is missing or belongs to another account; then the command needs --key. */
function readKey(file: string): string | undefined {
  try {
    return readOwn(file).trim()
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'EACCES', 'EPERM')) return undefined
    throw error
  }
}
