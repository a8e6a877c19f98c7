/**
 * Finds the running `up` of a folder by its file up.json. The file decides where commands are sent, so a file counts only if this
 * account wrote it: other accounts and unpacked archives can put one above the working folder.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, type Stats } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { settingsFile } from '../../settings/load.js'
import { adminKeyFile, dataFolder, upFile } from '../../runtime/paths.js'

export interface LocalUp {
  readonly file: string
  readonly url: string
  readonly key: string | undefined
  readonly pid: number | undefined
  readonly project: string | undefined
}

export const isUnsafe = (found: LocalUp | InvalidInput | undefined): found is InvalidInput =>
  found instanceof InvalidInput

/**
 * The `up` of this folder or of the nearest folder above it, up to the top of the project or the home folder. Returns an error for a
 * file that must not be used; a command that names its server does not need the file.
 */
export function findLocalUp(from: string): LocalUp | InvalidInput | undefined {
  const home = resolve(homedir())
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    const file = join(folder, dataFolder, upFile)
    if (stats(file) !== undefined) return readLocalUp(folder, file)
    const isTop = ['.git', settingsFile].some((name) => stats(join(folder, name)) !== undefined)
    if (isTop || folder === home || folder === dirname(folder)) return undefined
  }
}

function readLocalUp(folder: string, file: string): LocalUp | InvalidInput {
  const data = join(folder, dataFolder)
  try {
    const problem = folderProblem(data)
    if (problem !== undefined) return unsafe(file, problem)
    const text = readOwn(file)
    const { url, pid, project } = JSON.parse(text) as Readonly<Record<string, unknown>>
    if (typeof url !== 'string') throw new Error('"url" is missing')
    return {
      file,
      url,
      pid: typeof pid === 'number' ? pid : undefined,
      project: typeof project === 'string' ? project : undefined,
      key: readKey(join(data, adminKeyFile)),
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
    if (error instanceof Error && 'code' in error && ['ENOENT', 'EACCES', 'EPERM'].includes(String(error.code)))
      return undefined
    throw error
  }
}

function stats(path: string): Stats | undefined {
  try {
    return lstatSync(path)
  } catch (error) {
    // A folder that this account cannot read has nothing for it.
    if (
      error instanceof Error &&
      'code' in error &&
      ['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM'].includes(String(error.code))
    )
      return undefined
    throw error
  }
}
