/**
 * What this account trusts in a project folder: the effects of its control files, and the files that a person accepted after a turn had
 * changed them. The record lies in the project's data folder, outside the repository. What `init` wrote is trusted.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { dataFolderOf, isInside, ownFolder, statsOf } from '../data-folder.js'
import { controlFolder, trustFile } from '../paths.js'
import { effectsOf, hasTasks, linksOut, storedTasks, type Effect } from './effects.js'
import { absent, hashOf, readControlFiles, writeControlFiles, type ControlFiles, type ProjectFolders } from './files.js'

export interface TrustRecord {
  /** Ids of trusted effects. */
  readonly effects: readonly string[]
  /** Files that a person accepted: path → hash of the text. */
  readonly files: Readonly<Record<string, string>>
  /** Files that a turn changed and no person accepted: path → hash of the text. */
  readonly held: Readonly<Record<string, string>>
}

export interface Project extends Pick<ProjectFolders, 'agentsFile'> {
  readonly folder: string
  /** The folder of the record. */
  readonly home: string
  readonly files: ControlFiles
  /** What is on the disk. It differs from `files` in files that are held back. */
  readonly found: ControlFiles
  /** A folder with `files`. */
  readonly copy: string
  readonly record: TrustRecord | undefined
  /** What a person has not trusted yet. */
  readonly untrusted: readonly Effect[]
  /** Files that a turn changed or deleted. */
  readonly held: readonly string[]
  /** With the version of the held files that is in force, which is in the folder `accepted`. They stay held. */
  withoutHeld(accepted: string): Project
  /** Records that everything in `files` is trusted. `unseen`: also changes that no `up` has seen yet, and which it would hold back if a turn ran then. */
  trust(unseen?: 'unseen'): void
}

/** The folder of the record: the data folder, unless that lies in the project, where a repository could have put a record. */
export function trustFolderOf(folder: string, data?: string): string {
  const wanted = data === undefined ? undefined : resolve(folder, data)
  return wanted === undefined || isInside(resolve(folder), wanted) ? dataFolderOf(folder) : wanted
}

/** Reads the project once. Everything later is decided on these texts, whatever changes on the disk. */
export function openProject(project: ProjectFolders, home: string): Project {
  const found = readControlFiles(project)
  return projectWith(found, found, project, home)
}

function projectWith(files: ControlFiles, found: ControlFiles, project: ProjectFolders, home: string): Project {
  const { folder } = project
  const isWhole = files === found
  const copy = join(ownFolder(home, folder), `${controlFolder}.new`)
  writeControlFiles(copy, files)
  const { record, all, untrusted, held } = inspect({ project, home, files, copy })
  return {
    folder,
    agentsFile: project.agentsFile,
    home,
    files,
    found,
    copy,
    record,
    untrusted,
    held: isWhole ? held : [],
    withoutHeld(accepted) {
      const before = readControlFiles({ ...project, folder: accepted, root: accepted })
      const inForce = new Map(files)
      for (const file of held) {
        const text = before.get(file)
        if (text === undefined) inForce.delete(file)
        else inForce.set(file, text)
      }
      return projectWith(inForce, found, project, home)
    },
    trust(unseen) {
      const before = readTrust(home)
      const ids = [...new Set([...(before?.effects ?? []), ...all.map(({ id }) => id), storedTasks.id])]
      const changed = unseen === undefined ? held : [...held, ...files.keys()]
      const accepted = Object.fromEntries(changed.map((file) => [file, hashOf(files.get(file) ?? absent)]))
      writeTrust(
        home,
        isWhole
          ? { effects: ids, files: { ...before?.files, ...accepted }, held: {} }
          : { effects: ids, files: before?.files ?? {}, held: before?.held ?? {} },
      )
    },
  }
}

/** Compares the files with the record. Changes nothing. */
export function inspect({
  project,
  home,
  files,
  copy,
}: { project: ProjectFolders } & Pick<Project, 'home' | 'files' | 'copy'>) {
  const record = readTrust(home)
  const effects = [...effectsOf(files, project, copy), ...linksOut(project)]
  // Without commands no task can run.
  const all = effects.length > 0 && hasTasks(project) ? [...effects, storedTasks] : effects
  const trusted = new Set(record?.effects)
  return { record, all, untrusted: all.filter(({ id }) => !trusted.has(id)), held: Object.keys(record?.held ?? {}) }
}

/** Adds the effects of files that `init` has just written. */
export function trustCreated(folder: string, created: readonly string[]): void {
  const project = { folder, root: '.' }
  const home = trustFolderOf(folder)
  const { files, copy, record } = openProject(project, home)
  const own = new Map([...files].filter(([file]) => created.includes(file)))
  const ids = effectsOf(own, project, copy).map(({ id }) => id)
  if (!hasTasks(project)) ids.push(storedTasks.id)
  const { effects = [], files: accepted = {}, held = {} } = record ?? {}
  writeTrust(home, { effects: [...new Set([...effects, ...ids])], files: accepted, held })
}

export function readTrust(home: string): TrustRecord | undefined {
  const path = join(home, trustFile)
  if (statsOf(path) === undefined) return undefined
  const { effects = [], files = {}, held = {} } = JSON.parse(readFileSync(path, 'utf8')) as Partial<TrustRecord>
  return { effects, files, held }
}

export function writeTrust(home: string, record: TrustRecord): void {
  const path = join(home, trustFile)
  const fresh = `${path}.new`
  rmSync(fresh, { force: true })
  writeFileSync(fresh, `${JSON.stringify(record)}\n`, { mode: 0o600, flag: 'wx' })
  renameSync(fresh, path)
}
