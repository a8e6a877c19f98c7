/**
 * state/tasks.snapshot.json: what the log adds up to, for those who do not want to read it all. Always: a cache and never the
 * truth; the same log gives the same bytes (`updatedAt` is the last event's time, H3.1); it is replaced whole; one task a line,
 * so that two snapshots are compared without holding either in memory. The hash is over everything but the meta. Older ones
 * are kept by kept.ts.
 */
import { createHash } from 'node:crypto'
import { basename, dirname, join } from 'node:path'
import type { Disk } from '../../../ports/disk/disk.js'
import type { Fold, Problem } from '../fold.js'
import { sealOf, type ResumeData } from '../resume-point.js'
import { explainDisk } from '../root.js'
import type { Run, Task } from '../task.js'

/** The version of the reference's snapshots, which ours extend. */
export const snapshotVersion = 2

export interface SnapshotMeta {
  readonly version: number
  /** The last event's time. */
  readonly updatedAt: string | null
  readonly replay: {
    readonly events: number
    readonly lines: number
    /** Up to this byte the log has been read. */
    readonly position: number
    readonly token: number
    readonly problems: Partial<Record<Problem, number>>
  }
  readonly hash: string
  /** Absent for a log that is short, or that ends in the middle of a line: it is read from its start. */
  readonly resume?: ResumeData & { readonly seal: string }
}

/** What a snapshot is made from: a fold, and how it came about. */
export interface Replayed {
  readonly fold: Fold
  readonly position: number
  readonly report: { readonly lines: number; readonly counts: Partial<Record<Problem, number>> }
}

export const head = '{"tasks":{\n'
export const middle = '\n},\n"control":'

// Large enough that hashing and writing are cheap, small enough to be nothing in memory.
const chunkLength = 2 ** 18

/** The same text as JSON.stringify gives, in half the time: most texts need no escapes, and most tasks little else. */
export function taskLine(task: Task): string {
  const id = quoted(task.taskId)
  return (
    `${id}:{"taskId":${id},"title":${quoted(task.title)},"status":"${task.status}","priority":${task.priority}` +
    `,"impact":${task.impact},"dependencies":${task.dependencies.length === 0 ? '[]' : JSON.stringify(task.dependencies)}` +
    `,"assignee":${quotedOrNull(task.assignee)},"reason":${quotedOrNull(task.reason)}` +
    `,"createdAt":${quoted(task.createdAt)},"updatedAt":${quoted(task.updatedAt)}` +
    `,"runs":${runsText(task.runs)},"fields":${fieldsText(task.fields)}}`
  )
}

function runsText(runs: readonly Run[]): string {
  const [first] = runs
  if (first === undefined) return '[]'
  // The only one, and just begun: it has nothing but these three.
  if (runs.length === 1 && isBare(first))
    return `[{"runId":${quoted(first.runId)},"agent":${quoted(first.agent)},"startedAt":${quoted(first.startedAt)}}]`
  return JSON.stringify(runs)
}

const bareKeys = new Set<string>(['runId', 'agent', 'startedAt'])

function isBare(run: Run): boolean {
  for (const key in run) if (!bareKeys.has(key)) return false
  return true
}

function fieldsText(fields: Readonly<Record<string, unknown>>): string {
  let text = ''
  for (const key in fields) {
    const value = fields[key]
    const told = typeof value === 'string' ? quoted(value) : JSON.stringify(value)
    text += text === '' ? `${quoted(key)}:${told}` : `,${quoted(key)}:${told}`
  }
  return `{${text}}`
}

const plain = /^[ !#-[\]-~]*$/
const quoted = (text: string): string => (plain.test(text) ? `"${text}"` : JSON.stringify(text))
const quotedOrNull = (text: string | null): string => (text === null ? 'null' : quoted(text))

/** The text without the meta, in pieces; what the hash is over. */
export function* content(lines: Iterable<string>, control: Readonly<Record<string, unknown>>): Generator<string> {
  let text = head
  let first = true
  for (const line of lines) {
    if (!first) text += ',\n'
    first = false
    text += line
    if (text.length < chunkLength) continue
    yield text
    text = ''
  }
  yield `${text}${middle}${JSON.stringify(control)}`
}

export function* taskLines(tasks: Iterable<Task>): Generator<string> {
  for (const task of tasks) yield taskLine(task)
}

export function contentHash(lines: Iterable<string>, control: Readonly<Record<string, unknown>>): string {
  const hash = createHash('sha256')
  for (const chunk of content(lines, control)) hash.update(chunk)
  return hash.digest('hex')
}

export function metaOf({ fold, position, report }: Replayed, hash: string, facts?: ResumeData): SnapshotMeta {
  const meta = {
    version: snapshotVersion,
    updatedAt: fold.lastEventAt,
    replay: { events: fold.eventCount, lines: report.lines, position, token: fold.token, problems: report.counts },
    hash,
  }
  return facts === undefined ? meta : { ...meta, resume: { ...facts, seal: sealOf(meta, facts) } }
}

/** Replaces the file whole. `beforeReplace` runs when the new one is ready beside it. Returns its meta. */
export async function writeSnapshot(
  path: string,
  from: Replayed,
  { disk, draftId, facts, beforeReplace }: WriteOptions,
): Promise<SnapshotMeta> {
  const hash = createHash('sha256')
  let meta: SnapshotMeta | undefined
  function* text(): Generator<string> {
    for (const chunk of content(taskLines(from.fold.tasks()), from.fold.control)) {
      hash.update(chunk)
      yield chunk
    }
    meta = metaOf(from, hash.digest('hex'), facts)
    yield `,\n"meta":${JSON.stringify(meta)}}\n`
  }
  const draft = join(dirname(path), `.${basename(path)}.${draftId}.draft`)
  return explainDisk(path, async () => {
    try {
      await disk.writeDraft(draft, text())
      await beforeReplace?.(meta!)
      await disk.replace(path, draft)
    } catch (error) {
      // A draft that could not be finished is taken away again, if that is possible.
      await disk.remove(draft).catch(() => 'it stays')
      throw error
    }
    return meta!
  })
}

export interface WriteOptions {
  readonly disk: Disk
  readonly draftId: string
  readonly facts?: ResumeData | undefined
  readonly beforeReplace?: (meta: SnapshotMeta) => Promise<void>
}
