/**
 * What a running `up` leaves in its data folder for the commands of its folder: how it is reached, its database, who works for it.
 * Always: whole, because it is put in place by a rename; for its own account only, because it holds the database's password; kept
 * current as parts come and go; gone when `up` has gone.
 */
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { upFile } from './paths.js'
import type { PartState } from './supervisor.js'

export interface UpFacts {
  readonly url: string
  readonly pid: number
  readonly project: string
  readonly databaseUrl: string
}

export interface UpFile {
  /** Everything again, with the parts as they are now. */
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
      // What a crash left keeps its mode when it is written again.
      rmSync(fresh, { force: true })
      writeFileSync(fresh, `${JSON.stringify({ ...facts, workers })}\n`, { mode: 0o600 })
      renameSync(fresh, path)
    },
    remove() {
      for (const file of [path, fresh]) rmSync(file, { force: true })
    },
  }
}

/** What the parts that are workers are called, before their target. */
export const workerPart = 'worker '
