/**
 * Writes up.json: the URL, database and workers of a running `up`, for the commands of its folder. A rename replaces the file, so
 * readers never see a partial one. Only its account can read it, because it contains the database's password.
 */
import { readdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '@bellwether/base'
import { dataFolderOf, ownFolder, statsOf } from '../data-folder.js'
import { upFile } from '../paths.js'
import type { PartState } from '../supervise/supervisor.js'

interface UpFacts {
  readonly url: string
  readonly pid: number
  readonly project: string
  readonly databaseUrl: string
  /** The folder of the administrator's key. */
  readonly dataDir: string
  /** Null: the logs go to stderr. */
  readonly logFile: string | null
}

export interface UpFile {
  /** Commands work without the file, so an error is logged and not thrown. */
  write(facts: Omit<UpFacts, 'dataDir' | 'pid'>, parts: readonly PartState[]): void
  remove(): void
}

/** With another data folder, the default one gets a copy, because commands look for it there. */
export function openUpFile({ folder, dataDir, log }: { folder: string; dataDir: string; log: Log }): UpFile {
  const known = dataFolderOf(folder)
  const folders = [...new Set([dataDir, known])]
  const { pid } = process
  return {
    write(facts, parts) {
      const workers = parts
        .filter(({ name }) => name.startsWith(workerPart))
        .map(({ name, pid, status, restarts }) => ({
          name,
          target: name.slice(workerPart.length),
          pid,
          status,
          restarts,
        }))
      const text = `${JSON.stringify({ ...facts, pid, dataDir, workers })}\n`
      for (const to of folders) {
        try {
          replace(join(ownFolder(to, folder), upFile), text)
        } catch (error) {
          log.warn({ err: error, folder: to }, 'could not write the file that commands read')
        }
      }
    },
    remove() {
      for (const from of folders) {
        const path = join(from, upFile)
        // Another `up` of this folder, with other data, may have written it since.
        if (statsOf(path) !== undefined && !readFileSync(path, 'utf8').includes(`"pid":${pid},`)) continue
        for (const file of [path, freshFile(path)]) rmSync(file, { force: true })
        if (from !== dataDir) removeIfEmpty(from)
      }
    },
  }
}

function removeIfEmpty(folder: string): void {
  if (statsOf(folder) !== undefined && readdirSync(folder).length === 0) rmdirSync(folder)
}

const freshFile = (path: string) => `${path}.new`

function replace(path: string, text: string): void {
  const fresh = freshFile(path)
  // A crash may have left one.
  rmSync(fresh, { force: true })
  writeFileSync(fresh, text, { mode: 0o600, flag: 'wx' })
  renameSync(fresh, path)
}

/** The name of a worker part is this prefix and its target. */
export const workerPart = 'worker '
