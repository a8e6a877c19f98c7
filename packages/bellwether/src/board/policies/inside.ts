/**
 * Files that must lie inside a task root. Always: nothing outside the root is opened or made, whichever way the path tries
 * (absolute, `..`, a symbolic link); only regular files are read, to a bound; what was read or not is a value, and no
 * reading throws.
 */
import { constants } from 'node:fs'
import { open, realpath } from 'node:fs/promises'
import { isAbsolute, join, normalize, relative, sep } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import type { Disk } from '../../ports/disk/disk.js'

type NotRead =
  | { readonly found: 'absent' }
  /** `outside`: it leads out of the root. `unreadable`: there is something, but it cannot be used. */
  | { readonly found: 'outside' | 'unreadable'; readonly why: string }
export type InsideBytes = { readonly found: 'bytes'; readonly bytes: Buffer; readonly realPath: string } | NotRead
export type InsideText = { readonly found: 'text'; readonly text: string } | NotRead

// A policy or a list of lessons is a few kilobytes; whatever is larger is not one, and reading it would cost memory.
export const fileMaxBytes = 1_048_576
const chunkBytes = 65_536

const leadsOut = (way: string) => isAbsolute(way) || way === '..' || way.startsWith(`..${sep}`)
const codeOf = (error: unknown) => (error instanceof Error && 'code' in error ? String(error.code) : String(error))
const absentCodes = new Set(['ENOENT', 'ENOTDIR'])

export async function bytesInside(root: string, path: string): Promise<InsideBytes> {
  if (path.includes('\0') || isAbsolute(path) || leadsOut(normalize(path)))
    return { found: 'outside', why: 'the path leads out of the task root' }
  try {
    const realRoot = await realpath(root)
    const real = await realpath(join(realRoot, path))
    if (leadsOut(relative(realRoot, real)))
      return { found: 'outside', why: 'a symbolic link leads out of the task root' }
    return await readRegular(real)
  } catch (error) {
    if (absentCodes.has(codeOf(error))) return { found: 'absent' }
    return { found: 'unreadable', why: codeOf(error) }
  }
}

async function readRegular(realPath: string): Promise<InsideBytes> {
  // A pipe or device must not hold us: O_NONBLOCK lets its opening return, and then it is seen for what it is.
  const file = await open(realPath, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  try {
    if (!(await file.stat()).isFile()) return { found: 'unreadable', why: 'it is no regular file' }
    const chunks: Buffer[] = []
    let length = 0
    // A file may grow while it is read: what counts is what arrives, not what stat said.
    for (let more = true; more && length <= fileMaxBytes;) {
      const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(chunkBytes) })
      chunks.push(buffer.subarray(0, bytesRead))
      length += bytesRead
      more = bytesRead > 0
    }
    if (length > fileMaxBytes) return { found: 'unreadable', why: `it is larger than ${fileMaxBytes} bytes` }
    return { found: 'bytes', bytes: Buffer.concat(chunks), realPath }
  } finally {
    await file.close()
  }
}

/** The text of bytes that are UTF-8; undefined for others. */
export function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}

export async function readInside(root: string, path: string): Promise<InsideText> {
  const read = await bytesInside(root, path)
  if (read.found !== 'bytes') return read
  const text = utf8(read.bytes)
  return text === undefined ? { found: 'unreadable', why: 'it is not UTF-8' } : { found: 'text', text }
}

/** Makes a folder of the root, step by step, and answers its real path. Refuses a way that leads out of the root. */
export async function folderInside(disk: Disk, root: string, path: string): Promise<string> {
  const realRoot = await disk.realPath(root)
  let at = realRoot
  for (const part of path.split('/')) {
    at = join(at, part)
    if ((await disk.stat(at)) === 'missing') await disk.makeFolder(at)
    at = await disk.realPath(at)
    if (leadsOut(relative(realRoot, at)))
      throw new InvalidInput(`${path} leads out of the task root ${root}`, {
        code: 'outside_root',
        hint: 'a symbolic link in the way must stay inside the root',
      })
  }
  return at
}

/** Replaces a file whole, or leaves it as it was and nothing beside it. */
export async function replaceWhole(disk: Disk, path: string, draft: string, text: string): Promise<void> {
  try {
    await disk.writeDraft(draft, [text])
    await disk.replace(path, draft)
  } catch (error) {
    await disk.remove(draft)
    throw error
  }
}

// Deeper than any policy; and far from where a recursive reader would run out of stack.
const depthMax = 32

export type Parsed = { readonly value: Record<string, unknown> } | { readonly why: string }

/** JSON that is an object and not nested beyond reason; the reason otherwise. */
export function parseObject(text: string): Parsed {
  const depth = nesting(text)
  if (depth > depthMax) return { why: `it is nested ${depth} deep; at most ${depthMax} is read` }
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { value: value as Record<string, unknown> }
    return { why: 'it must be one object: { … }' }
  } catch (error) {
    return { why: `it is not JSON: ${error instanceof Error ? error.message.slice(0, 200) : String(error)}` }
  }
}

/** How deep brackets are nested, outside of texts. */
function nesting(text: string): number {
  let depth = 0
  let deepest = 0
  let quoted = false
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at]
    if (quoted && sign === '\\') at += 1
    else if (sign === '"') quoted = !quoted
    else if (quoted) continue
    else if (sign === '{' || sign === '[') deepest = Math.max(deepest, (depth += 1))
    else if (sign === '}' || sign === ']') depth -= 1
  }
  return deepest
}
