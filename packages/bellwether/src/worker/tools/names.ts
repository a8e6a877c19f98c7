/**
 * Names of tools. A name is the same for the model, the kernel and the subjects, so that it never has to be translated back: the
 * characters of a subject's token, 64 at most, which every provider takes. Pure. Tools of MCP servers get theirs from the server's
 * name and their own; where that loses something, a hash of both keeps two of them apart.
 */
import { createHash } from 'node:crypto'
import { InvalidInput } from '@bellwether/protocol'
import { submitResultName } from '../submit-result.js'

export const builtInNames = { delegate: 'delegate', forkJoin: 'fork_join', askPerson: 'ask_person' } as const

/** Tools that nobody can declare: the worker itself is meant. */
const reserved: readonly string[] = [submitResultName, ...Object.values(builtInNames)]

const nameMax = 64
const namePattern = /^[a-z0-9_-]{1,64}$/
/** Between a server and its tool. */
const seam = '__'

/** Throws for a name that no declared tool may have. */
export function ownName(name: string): string {
  if (reserved.includes(name)) {
    throw new InvalidInput(`${name} is built in: a tool of yours needs another name`, { code: 'reserved_tool_name' })
  }
  if (!namePattern.test(name) || name.includes(seam)) {
    throw new InvalidInput(`${JSON.stringify(name.slice(0, 80))} is not the name of a tool`, {
      code: 'invalid_tool_name',
      hint: `use 1 to ${nameMax} of the characters a-z, 0-9, _ and -, without ${seam}`,
    })
  }
  return name
}

// A server whose name ends in _ would move the seam.
const plainServer = /^[a-z0-9-]+(?:_[a-z0-9-]+)*$/
const serverMax = 20
const toolMax = 33

/** The name of an MCP server's tool: `server__tool` where that says it all. */
export function mcpName(server: string, tool: string): string {
  const whole = `${server}${seam}${tool}`
  if (plainServer.test(server) && namePattern.test(whole)) return whole
  const clean = (text: string, max: number) =>
    text
      .toLowerCase()
      .replace(/[^a-z0-9_-]/g, '_')
      .slice(0, max)
  const hash = createHash('sha256')
    .update(JSON.stringify([server, tool]))
    .digest('hex')
    .slice(0, 8)
  return `${clean(server, serverMax)}${seam}${clean(tool, toolMax)}-${hash}`
}

/** `*` stands for any characters. By hand: a regular expression with several stars can take for ever. */
export function matchesName(pattern: string, name: string): boolean {
  let [at, from, star, mark] = [0, 0, -1, 0]
  while (at < name.length) {
    if (pattern[from] === '*') {
      star = from
      mark = at
      from += 1
    } else if (pattern[from] === name[at]) {
      at += 1
      from += 1
    } else if (star === -1) return false
    else {
      // The last star takes one more.
      from = star + 1
      mark += 1
      at = mark
    }
  }
  while (pattern[from] === '*') from += 1
  return from === pattern.length
}
