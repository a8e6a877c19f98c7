/**
 * Implements `rebuild-snapshot` and `restore-snapshot`. Nothing in the root changes without `apply`. The log is only read. The
 * live snapshot is archived before it is replaced atomically. The compacted log contains the counted lines byte for byte, so it
 * folds to the same snapshot.
 */
import { join, resolve } from 'node:path'
import { defined } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Disk, LogFile } from '../../ports/disk/disk.js'
import { compareLive, type Comparison } from '../log/snapshot/snapshot-diff.js'
import { keepSnapshot } from './import-reference.js'
import { dependencyCycles } from '../tasks/cycles.js'
import type { Fold, Problem } from '../log/fold/fold.js'
import { messageTypes, type TaskDamage, type TaskEvent } from '../log/task.js'
import { chooseArchived, archiveLive, listArchived, type ArchivedSnapshot } from '../log/snapshot/snapshot-archive.js'
import type { LockPorts } from '../log/locks/locks.js'
import { Reader, type LineIssue } from '../log/fold/replay.js'
import { dropOldIds, writeResumeData, type ResumeData } from '../log/resume-point.js'
import { explainDisk, findRoot, type TaskRoot } from '../log/root.js'
import { contentHash, metaOf, taskLines, writeSnapshot, type SnapshotMeta } from '../log/snapshot/snapshot.js'

export interface RebuildOptions {
  readonly root: string
  readonly apply: boolean
  readonly compactTo?: string | undefined
  readonly onProgress?: (position: number, size: number) => void
}

export interface RebuildReport {
  /** False: the log has damaged or illegal lines, or tasks are held because of them. */
  readonly ok: boolean
  readonly mode: 'dry-run' | 'apply'
  readonly root: string
  readonly snapshot: string
  /** Whether the live snapshot equals the log. */
  readonly match: boolean
  readonly applied: boolean
  readonly rebuiltHash: string
  readonly liveHash: string | null
  readonly live: Comparison['live']
  readonly diff: Comparison['diff']
  readonly meta: SnapshotMeta
  readonly tasks: number
  readonly events: number
  readonly lines: number
  readonly errors: {
    readonly total: number
    readonly counts: Readonly<Partial<Record<Problem, number>>>
    /** In order of line number; the first thousand. */
    readonly items: readonly LineIssue[]
  }
  /** Tasks that wait for a person because of a damaged or illegal line; the first thousand. */
  readonly held: readonly ({ readonly taskId: string } & TaskDamage)[]
  readonly tornLastLine: boolean
  /** Lines that counted without a fencing token. */
  readonly unfenced: number
  readonly dependencyCycles: readonly (readonly string[])[]
  readonly archivedAs: string | null
  readonly compacted: { readonly path: string; readonly lines: number; readonly dropped: number } | null
}

const cyclesShown = 20
const heldMax = 1_000

/** Lines that a writer wrote twice, or after it lost the lock, are harmless; a person must check every other problem. */
const hasDamage = (counts: RebuildReport['errors']['counts']): boolean =>
  Object.keys(counts).some((kind) => kind !== 'stale_token' && kind !== 'duplicate_event_id')

const batchBytes = 2 ** 20

export async function rebuildSnapshot(options: RebuildOptions, ports: LockPorts): Promise<RebuildReport> {
  const { disk, clock, ids } = ports
  const root = await findRoot(options.root, ports)
  const log = await explainDisk(root.log, () => disk.openLog(root.log, 'read'))
  if (log === 'missing') {
    throw new InvalidInput(`Cannot open the task root: ${root.log} does not exist.`, {
      code: 'no_such_root',
      hint: 'Name the folder that contains state/tasks.jsonl with --root DIR.',
    })
  }
  const reader = new Reader()
  let compacted: RebuildReport['compacted'] = null
  let out: Compactor | undefined
  let resumeData: ResumeData | undefined
  try {
    if (options.compactTo !== undefined) out = await compactor(options.compactTo, root, disk, ids.next())
    await explainDisk(root.log, () =>
      reader.read(log, { complete: true, ...defined({ onCounted: out?.take, onProgress: options.onProgress }) }),
    )
    if (out !== undefined) {
      let added = 0
      for (const held of heldLines(reader.fold, ids)) {
        await out.take(held, 0, held.length)
        added += 1
      }
      compacted = await out.end(reader.report.lines + added)
    }
    if (options.apply) resumeData = await resumeDataOf(reader, log, root, ports)
  } catch (error) {
    await out?.giveUp()
    throw error
  } finally {
    await log.close()
  }
  const { fold, report } = reader
  const compare = (hash: string) => explainDisk(root.snapshot, () => compareLive(root.snapshot, fold, hash, disk))
  let compared: Comparison | undefined
  let archivedAs: string | null = null
  let meta: SnapshotMeta
  if (options.apply) {
    const beforeReplace = async ({ hash }: SnapshotMeta) => {
      await keepSnapshot(root.path, ports)
      compared = await compare(hash)
      await archiveLive(root, disk, clock.wallMs())
    }
    meta = await writeSnapshot(root.snapshot, reader, { disk, draftId: ids.next(), resumeData, beforeReplace })
    archivedAs = (await archiveLive(root, disk, clock.wallMs())) ?? null
    await dropOldIds(root.state, resumeData?.ids.file, disk)
  } else meta = metaOf(reader, contentHash(taskLines(fold), fold.control))
  compared ??= await compare(meta.hash)
  const rebuiltHash = meta.hash
  const total = Object.values(report.counts).reduce((sum, count) => sum + count, 0)
  const held = fold
    .tasks()
    .flatMap(({ taskId, damage }) => (damage === undefined ? [] : [{ taskId, ...damage }]))
    .slice(0, heldMax)
  return {
    ok: held.length === 0 && !hasDamage(report.counts),
    mode: options.apply ? 'apply' : 'dry-run',
    root: root.path,
    snapshot: root.snapshot,
    match: compared.liveHash === rebuiltHash,
    applied: options.apply,
    rebuiltHash,
    ...compared,
    meta,
    tasks: fold.tasks().length,
    events: fold.eventCount,
    lines: report.lines,
    errors: { total, counts: report.counts, items: report.issues },
    held,
    tornLastLine: report.torn,
    unfenced: fold.unfenced,
    dependencyCycles: dependencyCycles(fold.tasks()).slice(0, cyclesShown),
    archivedAs,
    compacted,
  }
}

/** No resume data after a torn last line: its writer may still complete it. */
function resumeDataOf(
  reader: Reader,
  log: LogFile,
  { log: path, state }: TaskRoot,
  { disk, ids }: LockPorts,
): Promise<ResumeData | undefined> {
  const { fold, position, lineNumber, report } = reader
  const at = { fold, position, lineNumber, openEnd: reader.openEnd || report.torn }
  return explainDisk(path, () => writeResumeData(at, log, state, { disk, draftId: ids.next() }))
}

/** The compacted log lacks the damaged lines, so it needs one line per held task to keep the task held. */
function* heldLines(fold: Fold, ids: LockPorts['ids']): Generator<Buffer> {
  const at = fold.lastEventAt ?? ''
  for (const { taskId, damage } of fold.tasks()) {
    if (damage === undefined) continue
    const event: TaskEvent = {
      eventId: ids.next(),
      taskId,
      type: 'task_noted',
      messageType: messageTypes.task_noted,
      actor: 'compact',
      at,
      payload: { damage },
    }
    yield Buffer.from(JSON.stringify(event))
  }
}

interface Compactor {
  readonly take: (bytes: Buffer, start: number, end: number) => Promise<void> | void
  readonly end: (lines: number) => Promise<NonNullable<RebuildReport['compacted']>>
  readonly giveUp: () => Promise<void>
}

async function compactor(to: string, root: TaskRoot, disk: Disk, draftId: string): Promise<Compactor> {
  const path = resolve(to)
  const [target, live] = [await disk.stat(path), await disk.stat(root.log)]
  if (target !== 'missing' && (target.kind !== 'file' || (live !== 'missing' && target.identity === live.identity))) {
    throw new InvalidInput(
      `Cannot write the compacted log to ${to}: it is ${target.kind === 'file' ? 'the log itself' : `a ${target.kind}`}.`,
      {
        code: 'bad_output',
        hint: 'Name a new file. To replace the log, stop every writer and move the new file there.',
      },
    )
  }
  const draft = `${path}.${draftId}.draft`
  const file = await explainDisk(path, () => disk.openLog(draft, 'append'))
  if (file === 'missing') {
    throw new InvalidInput(`Cannot write the compacted log to ${to}: the folder does not exist.`, {
      code: 'bad_output',
      hint: 'Create the folder first.',
    })
  }
  let [batch, filled, archived] = [Buffer.allocUnsafe(batchBytes), 0, 0]
  const flush = async () => {
    for (let at = 0; at < filled;) at += await file.append(batch.subarray(at, filled))
    filled = 0
  }
  return {
    take(bytes, start, end) {
      archived += 1
      const full = filled + (end - start) + 1 > batch.length
      const add = () => {
        if (end - start >= batch.length) batch = Buffer.allocUnsafe((end - start) * 2)
        bytes.copy(batch, filled, start, end)
        filled += end - start
        // Always add the newline: the last line may lack it.
        batch[filled] = 0x0a
        filled += 1
      }
      return full ? explainDisk(path, flush).then(add) : add()
    },
    async end(lines) {
      await explainDisk(path, async () => {
        await flush()
        await file.flush()
      })
      await file.close()
      await explainDisk(path, () => disk.move(draft, path))
      return { path, lines: archived, dropped: lines - archived }
    },
    async giveUp() {
      await file.close()
      await disk.remove(draft)
    },
  }
}

export interface RestoreReport {
  readonly ok: boolean
  readonly mode: 'dry-run' | 'apply'
  readonly root: string
  readonly applied: boolean
  readonly chosen: string
  readonly archived: readonly ArchivedSnapshot[]
  /** The archive name of the replaced snapshot. */
  readonly replacedArchivedAs: string | null
}

export async function restoreSnapshot(
  options: { readonly root: string; readonly apply: boolean; readonly snapshot?: string | undefined },
  ports: LockPorts,
): Promise<RestoreReport> {
  const { disk, clock, ids } = ports
  const root = await findRoot(options.root, ports)
  const archived = await listArchived(root, disk)
  const chosen = chooseArchived(archived, options.snapshot)
  let replacedArchivedAs: string | null = null
  if (options.apply) {
    await keepSnapshot(root.path, ports)
    const path = join(root.state, chosen.name)
    const draft = join(root.state, `.restore.${ids.next()}.draft`)
    // Link it first: archiving the live snapshot may remove the oldest one, which may be the chosen one.
    await explainDisk(path, () => disk.link(path, draft))
    replacedArchivedAs = (await archiveLive(root, disk, clock.wallMs())) ?? null
    await explainDisk(root.snapshot, () => disk.move(draft, root.snapshot))
  }
  return {
    ok: true,
    mode: options.apply ? 'apply' : 'dry-run',
    root: root.path,
    applied: options.apply,
    chosen: chosen.name,
    archived,
    replacedArchivedAs,
  }
}
