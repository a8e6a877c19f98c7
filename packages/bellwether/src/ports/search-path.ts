/**
 * Separates the search path of Bellwether's own programs from that of commands. `npx`, `npm run` and virtual environments put folders of the
 * project first; an agent can write there, so a program of ours (git, bwrap, flock) must not be looked for in them. Commands keep the whole path.
 */
import { accessSync, constants, existsSync, realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join, relative } from 'node:path'
import { addToEnvironment, environment } from '@bellwether/base'

const kept = 'BELLWETHER_COMMAND_PATH'

/** Call it first in a process. `folder`: where the process was started, which is the project folder or lies in the project. */
export function separateSearchPath(folder: string): void {
  const { PATH, [kept]: before } = environment()
  if (PATH === undefined) return
  const whole = before !== undefined && withoutProject(before, folder) === PATH ? before : PATH
  addToEnvironment({ PATH: withoutProject(whole, folder), [kept]: whole })
}

/** The search path of commands. */
export const commandPath = (env = environment()): string | undefined => env[kept] ?? env['PATH']

/** A program of ours, for a process whose search path is that of commands. */
export function ownProgram(name: string): string {
  const places = (environment()['PATH'] ?? '').split(':').map((folder) => join(folder, name))
  return places.find(isExecutable) ?? name
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false // not in this folder
  }
}

function withoutProject(path: string, folder: string): string {
  const projects = [folder, topOf(folder)].filter((one) => one !== undefined && !isWithin(one, homedir()))
  const isOurs = (one: string) =>
    isAbsolute(one) && !projects.some((project) => isWithin(project!, one) || isWithin(real(project!), real(one)))
  return path.split(':').filter(isOurs).join(':')
}

/** The top of the repository around a folder. */
function topOf(folder: string): string | undefined {
  if (existsSync(join(folder, '.git'))) return folder
  return folder === dirname(folder) ? undefined : topOf(dirname(folder))
}

/** The real path. A folder that does not exist yet may be made later. */
function real(path: string): string {
  if (existsSync(path) || path === dirname(path)) return realpathSync(path)
  return join(real(dirname(path)), relative(dirname(path), path))
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return way === '' || (way !== '..' && !way.startsWith('../') && !isAbsolute(way))
}
