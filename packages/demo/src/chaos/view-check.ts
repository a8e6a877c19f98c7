/** Compares the workspace view with the disk, entry by entry, after a complete audit. */
import { lstatSync, readdirSync } from 'node:fs'
import type { Clock } from '@bellwether/base'
import { decodeFileName, Retryable } from '@bellwether/protocol'
import type { DemoClient } from '../client.js'

export interface ViewCheck {
  readonly entries: number
  /** The first differences; empty if the view equals the disk. */
  readonly differences: readonly string[]
  readonly audits: number
}

export const view = 'project'
// `up` reports neither; the settings of chaos add nothing.
const excluded = new Set(['/state', '/.git', '/node_modules'])
// Several audit intervals (20 s) and the start of a sensor after a fault.
const auditMaxMs = 180_000
// A settling scan takes up to one heartbeat.
const settleMs = 40_000
const pollMs = 1_000
const listed = 10
// A double holds today's time in nanoseconds to about a quarter of a microsecond.
const sameSeconds = 1e-6

interface Entry {
  readonly kind: string
  readonly size: number
  readonly mtime: number
}

interface Node {
  readonly path: string
  readonly content_type?: string | undefined
  readonly size?: number | undefined
  readonly modified_time?: number | undefined
  readonly children?: readonly Node[] | undefined
}

/** The files must not change while it runs. */
export async function checkView(client: DemoClient, project: string, clock: Clock): Promise<ViewCheck> {
  const disk = onDisk(project)
  const audits = await waitForAudit(client, clock)
  const untilMs = clock.monotonicMs() + settleMs
  for (;;) {
    const tree = await client.insist('GET /views/:view/tree', {
      params: { view },
      query: { path: '/', recursive: 'true' },
      timeoutMs: settleMs,
    })
    const differences = differencesOf(disk, inView(tree as Node))
    if (differences.length === 0 || clock.monotonicMs() > untilMs)
      return { entries: disk.size, differences: differences.slice(0, listed), audits }
    await clock.sleep(pollMs)
  }
}

/** Waits for an audit that starts after this call. */
async function waitForAudit(client: DemoClient, clock: Clock): Promise<number> {
  const since = clock.wallMs() / 1_000
  const untilMs = clock.monotonicMs() + auditMaxMs
  for (;;) {
    const stats = await client.insist('GET /views/:view/stats', { params: { view } }).catch((error: unknown) => {
      if (!(error instanceof Retryable)) throw error
      return undefined
    })
    if (stats !== undefined && 'last_audit_start' in stats) {
      const { last_audit_start: start, last_audit_finished_at: end, audit_cycle_count: audits } = stats
      if ((start ?? 0) > since && (end ?? 0) >= (start ?? 0)) return audits
    }
    if (clock.monotonicMs() > untilMs) return 0
    await clock.sleep(pollMs)
  }
}

function onDisk(root: string): Map<string, Entry> {
  const found = new Map<string, Entry>()
  const walk = (bytes: Buffer, path: string) => {
    if (excluded.has(path)) return
    const stat = lstatSync(bytes, { bigint: true })
    const isDirectory = stat.isDirectory()
    const mtime = Number(stat.mtimeNs / 1_000_000_000n) + Number(stat.mtimeNs % 1_000_000_000n) / 1e9
    const kind = isDirectory ? 'directory' : stat.isSymbolicLink() ? 'symlink' : 'file'
    found.set(path === '' ? '/' : path, { kind, size: isDirectory ? 0 : Number(stat.size), mtime })
    if (!isDirectory) return
    for (const name of readdirSync(bytes, { encoding: 'buffer' }))
      walk(Buffer.concat([bytes, Buffer.from('/'), name]), `${path}/${decodeFileName(name)}`)
  }
  walk(Buffer.from(root), '')
  return found
}

function inView(top: Node): Map<string, Entry> {
  const found = new Map<string, Entry>()
  const walk = ({ path, content_type: kind = '', size = 0, modified_time: mtime = 0, children = [] }: Node) => {
    found.set(path, { kind, size: kind === 'directory' ? 0 : size, mtime })
    children.forEach(walk)
  }
  walk(top)
  return found
}

function differencesOf(disk: ReadonlyMap<string, Entry>, viewed: ReadonlyMap<string, Entry>): string[] {
  const show = (entry: Entry | undefined) => (entry === undefined ? 'missing' : JSON.stringify(entry))
  const isSame = (left: Entry, right: Entry | undefined) =>
    left.kind === right?.kind && left.size === right.size && Math.abs(left.mtime - right.mtime) <= sameSeconds
  const paths = [...new Set([...disk.keys(), ...viewed.keys()])]
  return paths
    .filter((path) => !isSame(disk.get(path) ?? { kind: '', size: -1, mtime: 0 }, viewed.get(path)))
    .map((path) => `${JSON.stringify(path)}: on disk ${show(disk.get(path))}, in the view ${show(viewed.get(path))}`)
}
