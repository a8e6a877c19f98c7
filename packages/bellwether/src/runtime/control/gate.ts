/**
 * Decides which control files are in force while `up` runs. A change counts at once if no turn that can write files ran when it was
 * made; otherwise the last accepted text stays in force until a person accepts the new one (`bellwether trust`). Times come from the
 * filesystem's ctime, which no program can set.
 */
import { join } from 'node:path'
import type { Log } from '@bellwether/base'
import { controlFolder } from '../paths.js'
import { effectsOf, storedTasks } from './effects.js'
import {
  absent,
  changedAt,
  hashOf,
  readControlFiles,
  writeControlFiles,
  type ControlFiles,
  type ProjectFolders,
} from './files.js'
import { readTrust, writeTrust, type TrustRecord } from './trust.js'

export interface GateOptions {
  readonly project: ProjectFolders
  /** The data folder of `up`. The accepted files are in its folder control/. */
  readonly dataDir: string
  /** The folder of the record of trust. */
  readonly home: string
  /** The files that are trusted at the start. */
  readonly files: ControlFiles
  /** The files on the disk at that time: they differ in what is held back. Default: the same. */
  readonly found?: ControlFiles
  /** The turns that ran at this instant and can write files. */
  readonly turnsAt: (ms: number) => Promise<readonly string[]>
  readonly log: Log
}

export interface Gate {
  /** The accepted files, laid out as in the project. */
  readonly folder: string
  /** The files that a turn changed, with the turns that ran at that time. */
  readonly held: ReadonlyMap<string, readonly string[]>
  /** Reads the project again. */
  step(): Promise<void>
}

export async function openGate({
  project,
  dataDir,
  home,
  files,
  found = files,
  turnsAt,
  log,
}: GateOptions): Promise<Gate> {
  const folder = join(dataDir, controlFolder)
  const held = new Map<string, readonly string[]>()
  const before = readControlFiles({ ...project, folder, root: folder })
  let accepted: ControlFiles = before.size === 0 ? files : before

  async function decide(files: ControlFiles): Promise<void> {
    const record = readTrust(home)
    const next = new Map(accepted)
    const changed = [...new Set([...files.keys(), ...accepted.keys(), ...held.keys()])].sort()
    for (const file of changed) {
      const text = files.get(file)
      if (text === accepted.get(file)) held.delete(file)
      else {
        const turns = await heldBy(file, text, record)
        if (turns === undefined) {
          held.delete(file)
          if (text === undefined) next.delete(file)
          else next.set(file, text)
          continue
        }
        if (!held.has(file))
          log.warn(
            { file, turns, accept: `bellwether trust${file === project.agentsFile ? ` --agents ${file}` : ''}` },
            'control file changed during a turn; the accepted version stays in force',
          )
        held.set(file, turns)
      }
    }
    accepted = next
    writeControlFiles(folder, accepted)
    remember(files, record)
  }

  /** The turns because of which the change does not count. Undefined: it counts. */
  async function heldBy(file: string, text = absent, record?: TrustRecord): Promise<readonly string[] | undefined> {
    const hash = hashOf(text)
    if (record?.files[file] === hash) return undefined
    if (held.has(file)) return held.get(file)
    if (record?.held[file] !== undefined) return []
    const turns = new Set<string>()
    for (const ms of changedAt(project, file)) for (const turn of await turnsAt(ms)) turns.add(turn)
    return turns.size === 0 ? undefined : [...turns].sort()
  }

  /** What a person changed while no turn ran is trusted; what is held back stays so after a restart. */
  function remember(files: ControlFiles, record: TrustRecord | undefined): void {
    const ids = effectsOf(accepted, project, folder).map(({ id }) => id)
    const next = {
      effects: [...new Set([...(record?.effects ?? []), ...ids, storedTasks.id])],
      files: record?.files ?? {},
      held: Object.fromEntries([...held.keys()].map((file) => [file, hashOf(files.get(file) ?? absent)])),
    }
    if (JSON.stringify(next) !== JSON.stringify(record)) writeTrust(home, next)
  }

  await decide(found)
  return { folder, held, step: async () => decide(readControlFiles(project)) }
}
