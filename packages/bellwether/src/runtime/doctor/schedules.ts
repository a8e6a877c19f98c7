/** Checks the schedules: valid files, and agents that have a file. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { readProjectFile } from '../../settings/regular-file.js'
import { systemClock } from '@bellwether/base'
import { readScheduleFile, isScheduleFile, scheduleNameOf } from '../../pmo/schedules/schedule-file.js'
import { timingOf } from '../../pmo/schedules/timing.js'
import { schedulesFolder } from '../paths.js'
import type { ReadAgents } from './agents.js'
import { absent, bad, good, warning, type Found } from './finding.js'

export async function checkSchedules(folder: string, { agents }: ReadAgents): Promise<Found> {
  const files = ((await readdir(join(folder, schedulesFolder)).catch(absent)) ?? []).filter(isScheduleFile)
  const known = new Set(agents.map(({ name }) => name))
  const problems: string[] = []
  const unknown: string[] = []
  const lines: string[] = []
  for (const file of files.sort()) {
    const path = `${schedulesFolder}/${file}`
    const read = readScheduleFile(path, await readProjectFile(join(folder, path)))
    if ('problems' in read) {
      problems.push(...read.problems)
      continue
    }
    const { agent } = read.definition
    if (agent !== undefined && !known.has(agent)) unknown.push(`${path}: no file agents/${agent}.md`)
    const timing = timingOf(read.definition)
    const next = 'problem' in timing ? undefined : timing.next(systemClock.wallMs())
    lines.push(`${scheduleNameOf(file)}  next ${next === undefined ? 'never' : new Date(next).toISOString()}`)
  }
  if (problems.length > 0) return bad(problems.join('\n'), 'correct the files; the last valid versions stay in force')
  if (unknown.length > 0)
    return warning(unknown.join('\n'), 'correct "agent", or make sure that a worker adds the agent to the roster')
  return good(lines.length === 0 ? 'none' : lines.join('\n'))
}
