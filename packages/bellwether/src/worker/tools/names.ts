/**
 * The names of tools. The model, the kernel and the subjects use the same name: at most 64 characters of a subject token, which every
 * provider accepts. Pure. The name of an MCP tool consists of the server's name and its own; if that is not exact, a hash keeps
 * names distinct.
 */
import { createHash } from 'node:crypto'
import { InvalidInput } from '@bellwether/protocol'
import { submitResultName } from '../submit-result.js'

export const builtInNames = { delegate: 'delegate', forkJoin: 'fork_join', askPerson: 'ask_person' } as const

/** Names of built-in tools, which cannot be declared. */
const reserved: readonly string[] = [submitResultName, ...Object.values(builtInNames)]

const nameMax = 64
const namePattern = /^[a-z0-9_-]{1,64}$/
/** Separates the server's name from the tool's. */
const separator = '__'

/** Throws if a declared tool cannot have this name. */
export function ownName(name: string): string {
  if (reserved.includes(name)) {
    throw new InvalidInput(`the tool name "${name}" is reserved for a built-in tool. Choose another name`, {
      code: 'reserved_tool_name',
    })
  }
  if (!namePattern.test(name) || name.includes(separator)) {
    throw new InvalidInput(`${JSON.stringify(name.slice(0, 80))} is not a valid tool name`, {
      code: 'invalid_tool_name',
      hint: `use 1 to ${nameMax} of the characters a-z, 0-9, _ and -, without ${separator}`,
    })
  }
  return name
}

// With a trailing _ in the server's name, the separator would be ambiguous.
const plainServer = /^[a-z0-9-]+(?:_[a-z0-9-]+)*$/
// How a name with a hash ends: no server may give a tool such a name itself, because it would be that of a tool of another server.
const hashed = /-[0-9a-f]{8}$/
const serverMax = 20
const toolMax = 33

/** The name of an MCP server's tool: `server__tool` if that is a valid name. */
export function mcpName(server: string, tool: string): string {
  const name = `${server}${separator}${tool}`
  if (plainServer.test(server) && namePattern.test(name) && !hashed.test(name)) return name
  const clean = (text: string, max: number) =>
    text
      .toLowerCase()
      .replace(/[^a-z0-9_-]/g, '_')
      .slice(0, max)
  const hash = createHash('sha256')
    .update(JSON.stringify([server, tool]))
    .digest('hex')
    .slice(0, 8)
  return `${clean(server, serverMax)}${separator}${clean(tool, toolMax)}-${hash}`
}

/** `*` matches any characters. Written by hand, because a regular expression with several stars can take exponential time. */
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
      // Backtrack: the last star matches one more character.
      from = star + 1
      mark += 1
      at = mark
    }
  }
  while (pattern[from] === '*') from += 1
  return from === pattern.length
}
