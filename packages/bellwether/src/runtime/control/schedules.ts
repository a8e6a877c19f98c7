/**
 * Keeps the schedules in the database in step with the accepted files `schedules/NAME.toml`. A file that is invalid leaves the last valid
 * version in force; the schedule of a file that is gone is deleted, its history stays.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { canonicalJson, type Log } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { scheduleName } from '@bellwether/protocol/http'
import type { Kernel } from '../../kernel/kernel.js'
import { listFileSchedules, type FileSchedule } from '../../kernel/reads/schedules.js'
import { defineFromFile, mustKnowAgent, removeSchedule } from '../../pmo/schedules/definitions.js'
import {
  readScheduleFile,
  isScheduleFile,
  scheduleNameOf,
  type ReadSchedule,
} from '../../pmo/schedules/schedule-file.js'
import { schedulesFolder } from '../paths.js'

export interface ScheduleFilesOptions {
  readonly kernel: Pick<Kernel, 'db'>
  readonly projectId: string
  /** The folder with the accepted files. */
  readonly folder: string
  /** The permanent name of the project folder: `host:path`. */
  readonly origin: string
  readonly log: Log
}

export interface ScheduleFiles {
  step(): Promise<void>
}

const author = 'file'

export function openScheduleFiles({ kernel, projectId, folder, origin, log }: ScheduleFilesOptions): ScheduleFiles {
  /** What this process has stored last, by name: a file that did not change is not written again. */
  const stored = new Map<string, string>()

  async function put(name: string, read: ReadSchedule, before: FileSchedule | undefined): Promise<void> {
    const version = await checked(read)
    const mark = JSON.stringify(
      'problem' in version ? [before?.definition ?? null, version.problem] : [version.definition],
    )
    // Of two folders with the same file, the one that changed last counts.
    if (stored.get(name) === mark) return
    if (!isStored(version, before)) {
      await defineFromFile(kernel, { projectId, schedule: name }, { origin, by: author, read: version })
      if ('problem' in version)
        log.error(
          {
            schedule: name,
            problem: version.problem,
            last_valid_version_in_use: (before?.definition ?? null) !== null,
          },
          'schedule file invalid',
        )
      else log.info({ schedule: name }, 'schedule file loaded')
    }
    stored.set(name, mark)
  }

  /** Adds what only the database knows: whether the agent exists. */
  async function checked(read: ReadSchedule) {
    if ('problems' in read) return { problem: read.problems.join('; ') }
    try {
      await mustKnowAgent(kernel.db, projectId, read.definition.agent)
      return read
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      return { problem: `${error.message}; ${error.hint ?? ''}` }
    }
  }

  return {
    async step() {
      const files = (await readdir(join(folder, schedulesFolder))).filter(isScheduleFile)
      const known = new Map(
        (await listFileSchedules(kernel.db, projectId, origin)).map((row) => [row.schedule_id, row]),
      )
      const present = new Set<string>()
      for (const file of files.sort()) {
        const name = scheduleNameOf(file)
        const path = `${schedulesFolder}/${file}`
        const read = readScheduleFile(path, await readFile(join(folder, path), 'utf8'))
        if (!scheduleName.safeParse(name).success) {
          if (stored.get(name) === undefined)
            log.error({ file: path, problem: 'problems' in read ? read.problems[0] : '' }, 'schedule file invalid')
          stored.set(name, '')
          continue
        }
        present.add(name)
        await put(name, read, known.get(name))
      }
      for (const name of known.keys()) {
        if (present.has(name)) continue
        await removeSchedule(kernel, { projectId, schedule: name }, origin)
        stored.delete(name)
        log.info({ schedule: name }, 'schedule deleted, its file is gone')
      }
    },
  }
}

/** Whether the database has this version, from an earlier start or another step. */
function isStored(version: { problem: string } | { definition: object }, before: FileSchedule | undefined): boolean {
  if (before === undefined) return false
  if ('problem' in version) return before.problem === version.problem
  // The keys of a stored object come in another order.
  return before.problem === null && canonicalJson(before.definition) === canonicalJson(version.definition)
}
