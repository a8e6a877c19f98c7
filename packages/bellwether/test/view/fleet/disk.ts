/**
 * Compares the view with the disk, entry by entry: path, kind, size and mtime, directories included. It reads the disk with
 * plain lstat and no code of the product, and compares names in their JSON form.
 */
import { lstatSync, readdirSync } from 'node:fs'
import { decodeFileName } from '@bellwether/protocol'

export interface Node {
  readonly path: string
  readonly content_type: 'file' | 'directory' | 'symlink'
  readonly size: number
  readonly modified_time: number
  readonly integrity_suspect: boolean
  readonly agent_missing: boolean
  readonly unreadable?: boolean
  readonly children?: readonly Node[]
}

export interface Entry {
  readonly kind: string
  readonly size: number
  readonly mtime: number
}

// A double holds today's time in nanoseconds to about a quarter of a microsecond.
const sameSeconds = 1e-6

export function onDisk(root: string): Map<string, Entry> {
  const found = new Map<string, Entry>()
  const walk = (bytes: Buffer, path: string) => {
    const stat = lstatSync(bytes, { bigint: true })
    const mtime = Number(stat.mtimeNs / 1_000_000_000n) + Number(stat.mtimeNs % 1_000_000_000n) / 1e9
    const isDirectory = stat.isDirectory()
    found.set(path === '' ? '/' : path, {
      kind: isDirectory ? 'directory' : stat.isSymbolicLink() ? 'symlink' : 'file',
      size: isDirectory ? 0 : Number(stat.size),
      mtime,
    })
    if (!isDirectory) return
    for (const name of readdirSync(bytes, { encoding: 'buffer' }))
      walk(Buffer.concat([bytes, Buffer.from('/'), name]), `${path}/${decodeFileName(name)}`)
  }
  walk(Buffer.from(root), '')
  return found
}

export function inView(top: Node): Map<string, Entry> {
  const found = new Map<string, Entry>()
  const walk = (node: Node) => {
    const size = node.content_type === 'directory' ? 0 : node.size
    found.set(node.path, { kind: node.content_type, size, mtime: node.modified_time })
    node.children?.forEach(walk)
  }
  walk(top)
  return found
}

export interface Difference {
  readonly path: string
  readonly disk: Entry | undefined
  readonly view: Entry | undefined
}

/** The differences; empty if view and disk are equal. */
export function differences(disk: ReadonlyMap<string, Entry>, view: ReadonlyMap<string, Entry>): Difference[] {
  const wrong: Difference[] = []
  for (const [path, entry] of disk) {
    const viewed = view.get(path)
    const isSame =
      viewed?.kind === entry.kind && viewed.size === entry.size && Math.abs(viewed.mtime - entry.mtime) <= sameSeconds
    if (!isSame) wrong.push({ path, disk: entry, view: viewed })
  }
  for (const [path, entry] of view) if (!disk.has(path)) wrong.push({ path, disk: undefined, view: entry })
  return wrong
}
