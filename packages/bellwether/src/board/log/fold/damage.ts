/**
 * Decides which tasks a line that cannot be read may belong to, so that they wait for a person instead of running again (H5.2).
 * Pure; fold.ts marks the tasks. An unfinished line of a writer that died is not damage, because the write was never acknowledged.
 */
import { isUtf8 } from 'node:buffer'
import { parseJson } from '@bellwether/base'

/** `ids`: the tasks that the line names; empty: none. `any`: an event was lost, and its task is unknown. */
export type Damage = { readonly ids: readonly string[] } | 'any'

// A damaged line may consist of several lines. The limit bounds the work for a line of many megabytes.
const idsMax = 1_000
const taskIdPattern = /"taskId"\s*:\s*("(?:[^"\\]|\\.)*")/g

/** `isJson`: the line is JSON, but not a valid event. */
export function damageOf(line: Buffer, isJson: boolean): Damage {
  const isText = isUtf8(line)
  if (!isJson && isText && isUnfinished(line)) return { ids: [] }
  const text = line.toString('latin1')
  const ids: string[] = []
  for (const [, quoted = ''] of text.matchAll(taskIdPattern)) {
    const id = parseJson(Buffer.from(quoted, 'latin1').toString('utf8'))
    if (typeof id === 'string') ids.push(id)
    if (ids.length >= idsMax) break
  }
  if (ids.length > 0) return { ids: [...new Set(ids)] }
  // JSON of another program is not an event; an event that lost its task id is.
  if (isJson) return text.includes('"eventId"') ? 'any' : { ids: [] }
  // A line of plain words, such as a merge marker, was never an event.
  const isWords = isText && !/[{}"]|(?!\s)\p{Cc}/u.test(line.toString('utf8'))
  return isWords ? { ids: [] } : 'any'
}

/** Whether the line is the beginning of one JSON object, cut before its end. */
function isUnfinished(line: Buffer): boolean {
  const text = line.toString('latin1')
  if (!/^\s*\{/.test(text) || text.indexOf('"eventId"') !== text.lastIndexOf('"eventId"')) return false
  let [depth, inText] = [0, false]
  for (let i = 0; i < text.length; i += 1) {
    const char = text.charCodeAt(i)
    if (char < 0x20 && char !== 0x09) return false
    if (inText) {
      if (char === 0x5c) i += 1
      else if (char === 0x22) inText = false
    } else if (char === 0x22) inText = true
    else if (char === 0x7b || char === 0x5b) depth += 1
    else if (char === 0x7d || char === 0x5d) {
      depth -= 1
      if (depth === 0) return false
    }
  }
  return true
}
