/** Reads `schedules/NAME.toml`. A problem names the file, the line, the key, what is expected and an example. Pure. */
import { basename } from 'node:path'
import { valueAt } from '@bellwether/base'
import { scheduleFile, scheduleName, type ScheduleDefinition } from '@bellwether/protocol/http'
import type { z } from 'zod'
import { nearest } from '../../settings/nearest.js'
import { lineOf, parseToml } from '../../settings/toml.js'
import { timingOf } from './timing.js'

export type ReadSchedule = { readonly definition: ScheduleDefinition } | { readonly problems: readonly string[] }

const scheduleExt = '.toml'
export const isScheduleFile = (file: string) => file.endsWith(scheduleExt) && !file.startsWith('.')
export const scheduleNameOf = (file: string) => basename(file, scheduleExt)
// Longer than the longest instruction that a request may have.
const scheduleMaxBytes = 1_048_576
const shownMax = 80

/** Keys that a file may have at its top, or in its `task`. */
const keysAt = (path: string): string[] =>
  Object.keys(path === 'task' ? scheduleFile.shape.task.unwrap().shape : scheduleFile.shape)

export function readScheduleFile(file: string, text: string): ReadSchedule {
  const at = (key: string) => {
    const line = lineOf(text, key)
    return line === undefined ? file : `${file}:${line}`
  }
  const name = scheduleName.safeParse(scheduleNameOf(file))
  if (!name.success) return { problems: [`${file}: the name of the file ${name.error.issues[0]!.message}`] }
  if (Buffer.byteLength(text) > scheduleMaxBytes)
    return { problems: [`${file}: the file is larger than ${scheduleMaxBytes} bytes; shorten the instruction`] }
  const parsed = parseToml(text)
  if ('invalid' in parsed) {
    const { line, invalid } = parsed
    return { problems: [`${file}:${line}: invalid TOML: ${invalid}. Write keys such as cron = "30 2 * * *"`] }
  }
  const { values } = parsed
  if (values['start'] instanceof Date) values['start'] = values['start'].toISOString()
  const read = scheduleFile.safeParse(values)
  if (!read.success) return { problems: read.error.issues.flatMap((issue) => problemsOf(issue, values, at)) }
  const timing = timingOf(read.data)
  return 'problem' in timing
    ? { problems: [`${at(timing.key)}: "${timing.key}": ${timing.problem}`] }
    : { definition: read.data }
}

function problemsOf(issue: z.core.$ZodIssue, values: unknown, at: (key: string) => string): string[] {
  const path = issue.path.map(String).join('.')
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => {
      const full = path === '' ? key : `${path}.${key}`
      const meant = nearest(key, keysAt(path))
      return `${at(full)}: unknown key "${full}"; did you mean "${path === '' ? '' : `${path}.`}${meant}"?`
    })
  const value = valueAt(values, issue.path)
  const rule = issue.message.replace(/^Invalid (?:input|option): /, '')
  const found = value === undefined ? '' : ` (got ${(JSON.stringify(value) ?? '').slice(0, shownMax)})`
  return [`${at(path)}: "${path}": ${rule}${found}`]
}
