/**
 * The control files of a project: the settings, agents, tools, policies and schedules that decide what `up` runs. They lie where agents work, so
 * `up` reads them once into memory, decides on these bytes, and writes the accepted ones into a folder outside the project, which its
 * parts use. Reading follows links and has bounds.
 */
import { createHash } from 'node:crypto'
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { errorCode } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { settingsFile } from '../../settings/load.js'
import type { Settings } from '../../settings/schema.js'
import { agentsFolder, configFolder, evalsFolder, mcpFile, schedulesFolder, toolsFile } from '../paths.js'

/** The text of each control file, by its path in the project folder, or in the task root for policies. */
export type ControlFiles = ReadonlyMap<string, string>

export interface ProjectFolders {
  readonly folder: string
  /** The task root: the policies are in its folder config/. */
  readonly root: string
  /** The agents file of `up`, inside the folder. */
  readonly agentsFile?: string | undefined
}

// Readers of these files reject larger ones, so the rest of a file does not matter.
const fileMaxBytes = 1_048_576 + 1
// More files mean that the folder is the wrong one; the reader of the agents folder has the same limit and reports it.
const filesMax = 1_100

const single = [settingsFile, mcpFile, toolsFile] as const
const folders = [
  [agentsFolder, '.md'],
  [configFolder, '.json'],
  [schedulesFolder, '.toml'],
  [evalsFolder, '.toml'],
] as const
/** A control file by its name, or the folder that it is in. */
export type ControlName = (typeof single)[number] | (typeof folders)[number][0]

/** The agents file as a path in the project. Throws for a file outside: agents of other projects could change it. */
export function agentsFileIn(folder: string, file: string | undefined): string | undefined {
  if (file === undefined) return undefined
  const inside = relative(folder, resolve(folder, file))
  if (inside !== '' && !inside.startsWith('..') && !isAbsolute(inside) && existsSync(join(folder, inside)))
    return inside
  throw new InvalidInput(`Cannot use the agents file ${file}: it does not exist in ${folder}`, {
    code: 'agents_file_missing',
    hint: 'correct --agents, or "agents" in [worker] of bellwether.toml: a path in the project folder',
  })
}

const modules = '/node_modules/'

/** The packages of Bellwether if they are installed in this folder: the next start runs them. */
export function ownPackages(folder: string, own = realpathSync(fileURLToPath(import.meta.url))): string[] {
  const top = whenPresent(() => realpathSync(folder)) ?? folder
  const inside = own.startsWith(`${top}/`) ? own.indexOf(modules, top.length) : -1
  return inside === -1 ? [] : [own.slice(0, inside + modules.length - 1)]
}

/**
 * What a sandboxed agent may read and not change, from the project folder: what decides which programs run, and the truth of the board.
 */
export const readOnlyPaths = (folder: string, { board: { root = '.' }, worker: { agents } }: Settings): string[] => [
  ...ownPackages(folder),
  ...[...single, ...folders.map(([name]) => name)],
  ...[join(root, configFolder), join(root, 'state')],
  ...(agents === undefined ? [] : [agents]),
]

/** The path of a control file on the disk. */
export function pathOf({ folder, root }: ProjectFolders, file: string): string {
  return file.startsWith(`${configFolder}/`) ? resolve(folder, root, file) : join(folder, file)
}

/** Whether a turn of this executor can change files of the project. A model can through a tool that is a program or a function of the project. */
export function canWriteFiles(executor: string | undefined, accepted: string, agentsFile?: string): boolean {
  if (executor === 'model') return agentsFile !== undefined || existsSync(join(accepted, mcpFile))
  return executor !== 'person'
}

export function readControlFiles(project: ProjectFolders): ControlFiles {
  const found = new Map<string, string>()
  for (const file of listControlFiles(project)) {
    const text = readBounded(pathOf(project, file))
    if (text !== undefined) found.set(file, text)
  }
  return found
}

export function listControlFiles(project: ProjectFolders): string[] {
  const { agentsFile } = project
  return [
    ...single,
    ...(agentsFile === undefined ? [] : [agentsFile]),
    ...folders.flatMap(([name, ext]) =>
      names(pathOf(project, `${name}/`))
        .filter((file) => file.endsWith(ext) && !file.startsWith('.'))
        .slice(0, filesMax)
        .map((file) => `${name}/${file}`),
    ),
  ]
}

/** Makes the folder contain these files and no other control files. Readers see each file whole. */
export function writeControlFiles(to: string, files: ControlFiles): void {
  for (const [name] of folders) mkdirSync(join(to, name), { recursive: true, mode: 0o700 })
  const target = { folder: to, root: to }
  for (const [file, text] of files) {
    const path = join(to, file)
    if (readBounded(path) === text) continue
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    const fresh = join(dirname(path), `.${hashOf(file)}.new`)
    rmSync(fresh, { force: true })
    writeFileSync(fresh, text, { mode: 0o600, flag: 'wx' })
    renameSync(fresh, path)
  }
  for (const file of listControlFiles(target)) if (!files.has(file)) rmSync(join(to, file), { force: true })
}

/** When the file, or the folders and links that lead to it, changed last. No program can set these times. */
export function changedAt(project: ProjectFolders, file: string): number[] {
  const path = pathOf(project, file)
  const real = whenPresent(() => realpathSync(path))
  const places = new Set([...wayTo(path, project.folder), ...(real === undefined ? [] : wayTo(real, project.folder))])
  return [...places].flatMap((one) =>
    [lstatSync, statSync].flatMap((stat) => stat(one, { throwIfNoEntry: false })?.ctimeMs ?? []),
  )
}

/** The path, its folder, and the folders above it in the project: to rename one of these puts another file in its place. */
function wayTo(path: string, folder: string): string[] {
  const way = [path, dirname(path)]
  const tops = [folder, whenPresent(() => realpathSync(folder)) ?? folder]
  const isBelow = (at: string) => tops.some((top) => at.startsWith(`${top}/`))
  for (let at = dirname(dirname(path)); isBelow(at); at = dirname(at)) way.push(at)
  return way
}

/** The text of a file that does not exist, for its hash. */
export const absent = ''
export const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')

function names(folder: string): string[] {
  return whenPresent(() => readdirSync(folder).sort()) ?? []
}

function readBounded(path: string): string | undefined {
  return whenPresent(() => {
    const found = statSync(path)
    if (!found.isFile()) return undefined
    if (found.size < fileMaxBytes) return readFileSync(path, 'utf8')
    const fd = openSync(path, 'r')
    try {
      const bytes = Buffer.alloc(fileMaxBytes)
      return bytes.toString('utf8', 0, readSync(fd, bytes))
    } finally {
      closeSync(fd)
    }
  })
}

function whenPresent<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    const code = errorCode(error)
    // A link that leads nowhere or in a circle has no file.
    if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(code)) return undefined
    throw error
  }
}
