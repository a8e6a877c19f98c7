/**
 * The folder of a project's run-time files: database, keys, up.json, accepted control files. By default it lies outside the project,
 * in the state folder of this account, so that neither a repository nor an agent that works in the project puts files into it.
 */
import { createHash } from 'node:crypto'
import { accessSync, chmodSync, constants, lstatSync, mkdirSync, realpathSync, type Stats } from 'node:fs'
import { homedir } from 'node:os'
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { environment, errorMessage, hasCode, type Environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { adminKeyFile, databaseFolder, oldDataFolder } from './paths.js'

const isRoot = () => process.geteuid?.() === 0
// Run by root, the database has an account of its own that must reach its folder.
const folderMode = () => (isRoot() ? 0o711 : 0o700)
const hashChars = 12
const nameMaxChars = 60

/** The folder of all projects of this account. Other accounts cannot enter /root, and root's database runs as one of them. */
function stateHome(env: Environment): string {
  const { XDG_STATE_HOME: state = '', HOME: home = '' } = env
  if (isAbsolute(state)) return join(state, 'bellwether')
  if (isRoot()) return '/var/lib/bellwether'
  return join(isAbsolute(home) ? home : homedir(), '.local', 'state', 'bellwether')
}

/** The default data folder of a project: its name and a hash of its path in the state folder. */
export function dataFolderOf(folder: string, env: Environment = environment()): string {
  const path = realPath(resolve(folder))
  const hash = createHash('sha256').update(path).digest('hex').slice(0, hashChars)
  const name = basename(path)
    .replace(/[^\w.-]/g, '_')
    .slice(0, nameMaxChars)
  return join(stateHome(env), `${name}-${hash}`)
}

/**
 * The data folder of a start, created if it is missing. `wanted` is the value of --data. Throws if an older version left run-time
 * files in the project: a start on an empty database would hide them, and files of a repository are not used without a request.
 */
export function openDataFolder(folder: string, wanted: string | undefined, env: Environment = environment()): string {
  if (wanted !== undefined) return ownFolder(resolve(folder, wanted), folder)
  const path = dataFolderOf(folder, env)
  const old = join(folder, oldDataFolder)
  const left = [databaseFolder, adminKeyFile].some((name) => statsOf(join(old, name)) !== undefined)
  if (left && statsOf(join(path, databaseFolder)) === undefined) {
    ownFolder(dirname(path), folder)
    throw new InvalidInput(`Run-time files of an older version are in ${old}; the place for them is now ${path}`, {
      code: 'old_data_folder',
      hint: `if they are yours, stop Bellwether here and move them: mv ${quote(old)} ${quote(path)} (or keep them there with --data ${oldDataFolder})`,
    })
  }
  return ownFolder(path, folder)
}

/**
 * Creates the folder, or checks that it is safe for secrets: a real folder of this account that no other account can write to, and
 * not one that links of the project lead out to.
 */
export function ownFolder(path: string, project: string): string {
  try {
    mkdirSync(path, { recursive: true, mode: folderMode() })
    const found = lstatSync(path)
    if (!found.isDirectory()) throw new Error('it is a symbolic link; give the path that it leads to')
    if (found.uid !== process.geteuid?.()) throw new Error(`it belongs to another account (uid ${found.uid})`)
    if (isInside(resolve(project), path) && !isInside(realPath(resolve(project)), realPath(path)))
      throw new Error(`a symbolic link in its path leads to ${realPath(path)}`)
    if ((found.mode & 0o777 & ~folderMode()) !== 0) chmodSync(path, folderMode())
    accessSync(path, constants.W_OK | constants.X_OK)
    return path
  } catch (error) {
    throw new InvalidInput(`Cannot use ${path} for run-time files: ${errorMessage(error)}`, {
      code: 'cannot_write',
      cause: error,
      hint: 'give --data DIR, a folder on a local disk that belongs to this account',
    })
  }
}

/** Whether `path` is `folder` or lies below it, by their names. */
export function isInside(folder: string, path: string): boolean {
  const inside = relative(folder, path)
  return inside !== '..' && !inside.startsWith('../') && !isAbsolute(inside)
}

function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return path
    throw error
  }
}

/** Undefined for a path that does not exist or that this account cannot reach. */
export function statsOf(path: string): Stats | undefined {
  try {
    return lstatSync(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR', 'EACCES', 'EPERM')) return undefined
    throw error
  }
}

const quote = (text: string) => (/^[\w./~-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`)
