/**
 * Writes up.json: the URL, database and workers of a running `up`, for the commands of its folder. A rename replaces the file, so
 * readers never see a partial one. Only its account can read it, because it contains the database's password.
 */
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { upFile } from '../paths.js'
import type { PartState } from '../supervise/supervisor.js'

export interface UpFacts {
  readonly url: string
  readonly pid: number
  readonly project: string
  readonly databaseUrl: string
}

export interface UpFile {
  write(facts: UpFacts, parts: readonly PartState[]): void
  remove(): void
}

export function openUpFile(dataDir: string): UpFile {
  const path = join(dataDir, upFile)
  const fresh = `${path}.new`
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
      // `mode` applies to new files only, and a crash may have left one.
      rmSync(fresh, { force: true })
      writeFileSync(fresh, `${JSON.stringify({ ...facts, workers })}\n`, { mode: 0o600 })
      renameSync(fresh, path)
    },
    remove() {
      for (const file of [path, fresh]) rmSync(file, { force: true })
    },
  }
}

/** The name of a worker part is this prefix and its target. */
export const workerPart = 'worker '
