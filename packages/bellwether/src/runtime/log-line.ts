/** Formats a line of a log: as safe JSON, or for people. Pure. */
import { isObject, type JsonObject, parseJson, textOrJson } from '@bellwether/base'
import { escapeUnsafe, plain } from '../client/sanitize.js'

const marks: Readonly<Record<number, string>> = { 30: ' ', 40: '!', 50: '✗', 60: '✗' }

// Most lines are plain ASCII, in which JSON has escaped every control character.
// eslint-disable-next-line no-control-regex -- it is the purpose of this expression
export const safeLine = (line: string) => (/[^\u0000-\u007e]/.test(line) ? escapeUnsafe(line) : line)

/** A JSON log line for people: the time, a mark for the level, the phrase, then the fields. Other lines stay as they are. */
export function readableLine(line: string): string {
  const found = parsedLine(line)
  if (found === undefined) return plain(line)
  const { level, time, msg, err, process: _process, host: _host, ...rest } = found
  const timeOfDay = typeof time === 'number' ? new Date(time).toTimeString().slice(0, 8) : ''
  const fields = Object.entries(rest).map(([name, value]) => `${name}=${textOrJson(value)}`)
  const cause = isObject(err) && 'message' in err ? [`(${String(err['message'])})`] : []
  return plain([timeOfDay, marks[Number(level)] ?? ' ', String(msg), ...cause, ...fields].join(' '))
}

/** Undefined for a line that no logger wrote, such as the stack of a crash. */
export function parsedLine(line: string): JsonObject | undefined {
  const parsed = line.startsWith('{') ? parseJson(line) : undefined
  return isObject(parsed) ? parsed : undefined
}
