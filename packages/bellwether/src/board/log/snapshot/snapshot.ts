/**
 * Writes state/tasks.snapshot.json, a cache of the folded log. The same log gives the same bytes (`updatedAt` is the time of
 * the last event, H3.1). The file is replaced atomically. It has one task per line, so that two snapshots can be compared
 * without loading either. The hash covers everything but the meta.
 */
import { createHash } from 'node:crypto'
import { basename, dirname, join } from 'node:path'
import type { Disk, LogFile } from '../../../ports/disk/disk.js'
import type { Fold, Problem } from '../fold/fold.js'
import { sealOf, type ResumeData } from '../resume-point.js'
import { explainDisk } from '../root.js'
import type { Run, Task } from '../task.js'

/** The version of the reference's snapshots, which ours extend. */
const snapshotVersion = 2

export interface SnapshotMeta {
  readonly version: number
  /** The time of the last event. */
  readonly updatedAt: string | null
  readonly replay: {
    readonly events: number
    readonly lines: number
    /** The byte up to which the log was read. */
    readonly position: number
    readonly token: number
    readonly problems: Partial<Record<Problem, number>>
  }
  readonly hash: string
  /** Absent if the log is short or ends in an incomplete line: it is then read from its start. */
  readonly resume?: ResumeData & { readonly seal: string }
}

/** What a snapshot is made from. */
export interface Replayed {
  readonly fold: Fold
  readonly position: number
  readonly report: { readonly lines: number; readonly counts: Partial<Record<Problem, number>> }
}

export const head = '{"tasks":{\n'
const middle = '\n},\n"control":'

// Large enough for cheap hashing and writing, small enough for memory.
const chunkLength = 2 ** 18

type Control = Readonly<Record<string, unknown>>

/** Whether the root was imported from the reference: its snapshot then also has the keys that the reference's own tools need. */
export const isReferenceRoot = (control: Control): boolean => typeof control['imported'] === 'object'

/** The keys of the reference's tasks that ours have under another name or among the fields. */
const referenceKeys = ['assigneeHint', 'createdBy', 'result', 'review', 'relatedTo', 'projectId'] as const

function referenceText(task: Task): string {
  const { assignee, dependencies, reason, fields } = task
  const named = Object.fromEntries(referenceKeys.map((key) => [key, fields[key] ?? null]))
  const text = JSON.stringify({
    owner: assignee,
    dependsOn: dependencies,
    blockedReason: reason,
    ...named,
    history: [],
  })
  return `,${text.slice(1, -1)}`
}

/** A task as the board has it. */
export function withoutReferenceKeys(task: Task): Task {
  if (!('history' in task)) return task
  const extra = new Set<string>(['owner', 'dependsOn', 'blockedReason', 'history', ...referenceKeys])
  return Object.fromEntries(Object.entries(task).filter(([key]) => !extra.has(key))) as unknown as Task
}

/** The same text as JSON.stringify in half the time: most strings need no escapes. */
export function taskLine(task: Task, forReference = false): string {
  const id = quoted(task.taskId)
  return (
    `${id}:{"taskId":${id},"title":${quoted(task.title)},"status":"${task.status}","priority":${task.priority}` +
    `,"impact":${task.impact},"dependencies":${task.dependencies.length === 0 ? '[]' : JSON.stringify(task.dependencies)}` +
    `,"assignee":${quotedOrNull(task.assignee)},"reason":${quotedOrNull(task.reason)}` +
    `,"createdAt":${quoted(task.createdAt)},"updatedAt":${quoted(task.updatedAt)}` +
    `,"runs":${runsText(task.runs)},"fields":${fieldsText(task.fields)}` +
    (task.damage === undefined ? '' : `,"damage":${JSON.stringify(task.damage)}`) +
    (forReference ? `${referenceText(task)}}` : '}')
  )
}

function runsText(runs: readonly Run[]): string {
  const [first] = runs
  if (first === undefined) return '[]'
  // The only run, just started, has only these three keys.
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
    const written = typeof value === 'string' ? quoted(value) : JSON.stringify(value)
    text += text === '' ? `${quoted(key)}:${written}` : `,${quoted(key)}:${written}`
  }
  return `{${text}}`
}

const plain = /^[ !#-[\]-~]*$/
const quoted = (text: string): string => (plain.test(text) ? `"${text}"` : JSON.stringify(text))
const quotedOrNull = (text: string | null): string => (text === null ? 'null' : quoted(text))

/** The text without the meta, in chunks; the hash covers it. */
function* content(lines: Iterable<string>, control: Readonly<Record<string, unknown>>): Generator<string> {
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

export function* taskLines(fold: Pick<Fold, 'tasks' | 'control'>): Generator<string> {
  const forReference = isReferenceRoot(fold.control)
  for (const task of fold.tasks()) yield taskLine(task, forReference)
}

export function contentHash(lines: Iterable<string>, control: Readonly<Record<string, unknown>>): string {
  const hash = createHash('sha256')
  for (const chunk of content(lines, control)) hash.update(chunk)
  return hash.digest('hex')
}

/** The hash of the first `end` bytes. Undefined: the file is shorter. */
export async function hashUpTo(file: LogFile, end: number): Promise<string | undefined> {
  const hash = createHash('sha256')
  const chunk = Buffer.allocUnsafe(2 ** 20)
  for (let at = 0; at < end;) {
    const bytesRead = await file.read(chunk.subarray(0, Math.min(chunk.length, end - at)), at)
    if (bytesRead === 0) return undefined
    hash.update(chunk.subarray(0, bytesRead))
    at += bytesRead
  }
  return hash.digest('hex')
}

export function metaOf({ fold, position, report }: Replayed, hash: string, resumeData?: ResumeData): SnapshotMeta {
  const meta = {
    version: snapshotVersion,
    updatedAt: fold.lastEventAt,
    replay: { events: fold.eventCount, lines: report.lines, position, token: fold.token, problems: report.counts },
    hash,
  }
  return resumeData === undefined ? meta : { ...meta, resume: { ...resumeData, seal: sealOf(meta, resumeData) } }
}

/** Replaces the file atomically. `beforeReplace` runs when the new file is complete next to it. Returns its meta. */
export async function writeSnapshot(
  path: string,
  from: Replayed,
  { disk, draftId, resumeData, beforeReplace }: WriteOptions,
): Promise<SnapshotMeta> {
  const hash = createHash('sha256')
  let meta: SnapshotMeta | undefined
  function* text(): Generator<string> {
    for (const chunk of content(taskLines(from.fold), from.fold.control)) {
      hash.update(chunk)
      yield chunk
    }
    meta = metaOf(from, hash.digest('hex'), resumeData)
    yield `,\n"meta":${JSON.stringify(meta)}}\n`
  }
  const draft = join(dirname(path), `.${basename(path)}.${draftId}.draft`)
  return explainDisk(path, async () => {
    try {
      await disk.writeDraft(draft, text())
      await beforeReplace?.(meta!)
      await disk.replace(path, draft)
    } catch (error) {
      // Remove the unfinished draft if possible; the original error matters more.
      await disk.remove(draft).catch(() => undefined)
      throw error
    }
    return meta!
  })
}

export interface WriteOptions {
  readonly disk: Disk
  readonly draftId: string
  readonly resumeData?: ResumeData | undefined
  readonly beforeReplace?: (meta: SnapshotMeta) => Promise<void>
}
