/**
 * Reads and writes files inside a task root. Nothing outside the root is opened or created (absolute paths, `..` and symbolic
 * links are checked); only regular files up to a size are read; a failed read is a value, not an exception.
 */
import { constants } from 'node:fs'
import { open, realpath } from 'node:fs/promises'
import { isAbsolute, join, normalize, relative, sep } from 'node:path'
import { errorCode, errorMessage, isObject, type JsonObject } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Disk } from '../../ports/disk/disk.js'

type NotRead =
  | { readonly found: 'absent' }
  /** `outside`: the path leads out of the root. `unreadable`: the file exists but cannot be used. */
  | { readonly found: 'outside' | 'unreadable'; readonly why: string }
export type InsideBytes = { readonly found: 'bytes'; readonly bytes: Buffer; readonly realPath: string } | NotRead
export type InsideText = { readonly found: 'text'; readonly text: string } | NotRead

// A policy or a list of lessons has a few kilobytes; a larger file is something else.
const fileMaxBytes = 1_048_576
const chunkBytes = 65_536

/** Whether a path relative to a root leads out of it. */
export const leadsOut = (path: string): boolean => isAbsolute(path) || path === '..' || path.startsWith(`..${sep}`)
/** Whether a path relative to a root is in Bellwether's own folder, which has keys: its files are never evidence. */
export const isPrivate = (path: string): boolean => path.split(sep)[0] === '.bellwether'
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
    const code = errorCode(error)
    return absentCodes.has(code) ? { found: 'absent' } : { found: 'unreadable', why: code || errorMessage(error) }
  }
}

async function readRegular(realPath: string): Promise<InsideBytes> {
  // O_NONBLOCK: opening a pipe or device must not wait.
  const file = await open(realPath, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  try {
    if (!(await file.stat()).isFile()) return { found: 'unreadable', why: 'not a regular file' }
    const chunks: Buffer[] = []
    let length = 0
    // A file may grow while it is read: count the bytes instead of asking stat.
    for (let more = true; more && length <= fileMaxBytes;) {
      const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(chunkBytes) })
      chunks.push(buffer.subarray(0, bytesRead))
      length += bytesRead
      more = bytesRead > 0
    }
    if (length > fileMaxBytes) return { found: 'unreadable', why: `larger than ${fileMaxBytes} bytes` }
    return { found: 'bytes', bytes: Buffer.concat(chunks), realPath }
  } finally {
    await file.close()
  }
}

/** Undefined: the bytes are not UTF-8. */
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
  return text === undefined ? { found: 'unreadable', why: 'not UTF-8' } : { found: 'text', text }
}

/** Creates a folder inside the root and returns its real path. Rejects a path that leads out of the root. */
export async function folderInside(disk: Disk, root: string, path: string): Promise<string> {
  const realRoot = await disk.realPath(root)
  let at = realRoot
  for (const part of path.split('/')) {
    at = join(at, part)
    if ((await disk.stat(at)) === 'missing') await disk.makeFolder(at)
    at = await disk.realPath(at)
    if (leadsOut(relative(realRoot, at)))
      throw new InvalidInput(`Cannot use ${path}: it leads out of the task root ${root}.`, {
        code: 'outside_root',
        hint: 'Replace the symbolic link that leads outside.',
      })
  }
  return at
}

/** Replaces a file atomically. After an error the file is unchanged and the draft removed. */
export async function replaceFile(disk: Disk, path: string, draft: string, text: string): Promise<void> {
  try {
    await disk.writeDraft(draft, [text])
    await disk.replace(path, draft)
  } catch (error) {
    await disk.remove(draft)
    throw error
  }
}

// Deeper than any policy, and far below what would overflow the stack.
const depthMax = 32

export type Parsed = { readonly value: JsonObject } | { readonly why: string }

/** Parses a JSON object that is not nested too deeply. */
export function parseObject(text: string): Parsed {
  const depth = nesting(text)
  if (depth > depthMax) return { why: `nested ${depth} levels deep; the maximum is ${depthMax}` }
  try {
    const value: unknown = JSON.parse(text)
    if (isObject(value)) return { value }
    return { why: 'must be one JSON object: { … }' }
  } catch (error) {
    return { why: `not JSON: ${errorMessage(error).slice(0, 200)}` }
  }
}

/** How deep brackets are nested, outside of strings. */
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
