/**
 * Imports a task root of the reference when it is opened for writing, once: the values that only its snapshot has, its
 * governance, its recovery and budget state. The log is not rewritten, copies of the snapshot and the state files are stored next
 * to them, and the report names what was taken and what was not. A crash repeats only what was not written.
 */
import { join } from 'node:path'
import { type Clock, isObject, type JsonObject, parseJson } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { parseObject, readInside } from '../policies/inside.js'
import { normalize, runtimeFile } from '../policies/runtime.js'
import { importStateFiles, type ImportPorts } from './import-state.js'
import { importActor, referenceTasks, takeGovernance, takeTask, type Taken } from './reference-root.js'
import { isReferenceRoot } from '../log/snapshot/snapshot.js'
import { pausedBy } from '../tasks/task-fields.js'
import { wholeBoard } from '../tasks/operator-commands.js'
import type { Board, BoardState } from '../log/task.js'

const snapshotFile = 'state/tasks.snapshot.json'
const snapshotCopy = 'state/tasks.snapshot.before-import.json'
const governanceFile = 'state/governance.control.json'
// A snapshot of 50,000 tasks; a larger one is not a board of the reference.
const snapshotMaxBytes = 64 * 2 ** 20
const governanceMaxBytes = 2 ** 20
// One write holds the lock; thousands of tasks need several writes.
const perWriteMax = 200
// Keeps the line of the log and the warning short; the originals stay on the disk.
const notTakenMax = 100
const notTakenMaxChars = 300

/** Files of the reference that the board does not read. */
const unusedFiles = [
  'state/governance.audit.jsonl',
  'state/scheduler.kernel.json',
  'state/scheduler.daemon.json',
  'state/autopilot.runtime.json',
  'state/worker-sessions.json',
  'state/ops.metrics.jsonl',
  'config/role-strategies.json',
  'config/decomposition-policy.json',
  'config/collaboration-policy.json',
  'config/expert-group-policy.json',
  'config/feishu-bot-openids.json',
] as const

export interface ReferencePorts extends ImportPorts {
  readonly clock: Pick<Clock, 'wallMs'>
}

export async function importReference(board: Board, ports: ReferencePorts): Promise<void> {
  if (!isReferenceRoot(board.state.control)) await importOnce(board, ports)
  await importStateFiles(board, ports)
}

async function importOnce(board: Board, ports: ReferencePorts): Promise<void> {
  const { root } = board
  const tasks = await readSnapshot(root, ports)
  const governance = await readJson(join(root, governanceFile), governanceMaxBytes, ports)
  if (tasks === undefined && !isObject(governance)) return
  const at = new Date(ports.clock.wallMs()).toISOString()
  const counts: Record<string, number> = {}
  const notTaken: string[] = []
  const add = (taken: Pick<Taken, 'counts' | 'notTaken'>) => {
    for (const [name, count] of Object.entries(taken.counts)) counts[name] = (counts[name] ?? 0) + count
    notTaken.push(...taken.notTaken)
  }
  const ids = [...(tasks?.keys() ?? [])]
  for (let from = 0; from < ids.length; from += perWriteMax) {
    // If a task of the group is invalid, the tasks are written one at a time.
    const chunk = ids.slice(from, from + perWriteMax)
    try {
      for (const taken of await write(board, chunk, tasks!)) add(taken)
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      for (const id of chunk) add(await writeOne(board, id, tasks!))
    }
  }
  notTaken.push(...(await unused(root, ports)))
  let governed: Taken | undefined
  await board.write((state) => {
    // Another process was first.
    if (isReferenceRoot(state.control)) return []
    const governanceTaken = isObject(governance) ? takeGovernance(state, governance, at) : undefined
    governed = governanceTaken
    const imported = {
      at,
      taken: { ...counts, ...governanceTaken?.counts },
      ...bounded([...notTaken, ...(governanceTaken?.notTaken ?? [])]),
    }
    const pause = governanceTaken?.pause ?? null
    const paused = pause === null || pausedBy(state) !== null ? {} : { paused: { by: importActor, at, reason: pause } }
    const payload = { imported, ...paused }
    return [
      ...(governanceTaken?.drafts ?? []),
      { taskId: wholeBoard, type: 'board_control', actor: importActor, payload },
    ]
  })
  if (governed !== undefined) add(governed)
  ports.log.warn({ root, taken: counts, ...bounded(notTaken) }, 'imported a task root of the reference')
}

function bounded(notTaken: readonly string[]) {
  const named = notTaken.slice(0, notTakenMax).map((one) => one.slice(0, notTakenMaxChars).toWellFormed())
  const moreNotTaken = notTaken.length - named.length
  return { notTaken: named, ...(moreNotTaken > 0 && { moreNotTaken }) }
}

async function write(
  board: Board,
  ids: readonly string[],
  tasks: ReadonlyMap<string, JsonObject>,
): Promise<readonly Taken[]> {
  let taken: readonly Taken[] = []
  await board.write((state: BoardState) => {
    taken = isReferenceRoot(state.control) ? [] : ids.map((id) => takeTask(state, id, tasks.get(id)!))
    return taken.flatMap(({ drafts }) => drafts)
  })
  return taken
}

async function writeOne(board: Board, id: string, tasks: ReadonlyMap<string, JsonObject>): Promise<Taken> {
  try {
    return (await write(board, [id], tasks))[0] ?? { drafts: [], counts: {}, notTaken: [] }
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return { drafts: [], counts: {}, notTaken: [`${id}: ${error.message}`] }
  }
}

/** The tasks of the reference's snapshot, from its copy if the board has replaced the snapshot already. */
async function readSnapshot(root: string, ports: ReferencePorts): Promise<ReadonlyMap<string, JsonObject> | undefined> {
  const copy = referenceTasks(await readJson(join(root, snapshotCopy), snapshotMaxBytes, ports))
  if (copy !== undefined) return copy
  const tasks = referenceTasks(await readJson(join(root, snapshotFile), snapshotMaxBytes, ports))
  if (tasks !== undefined) await keepSnapshot(root, ports)
  return tasks
}

/** Copies the snapshot of the reference before it is replaced. A hard link would change with it, because the reference's tools write in place. */
export async function keepSnapshot(root: string, { disk, ids }: Pick<ReferencePorts, 'disk' | 'ids'>): Promise<void> {
  const read = await disk.read(join(root, snapshotFile), snapshotMaxBytes)
  if (read.found !== 'bytes' || referenceTasks(parseJson(read.bytes.toString('utf8'))) === undefined) return
  const path = join(root, snapshotCopy)
  await disk.createExclusive(path, `${path}.${ids.next()}.draft`, read.bytes)
}

async function readJson(path: string, maxBytes: number, { disk, log }: ReferencePorts): Promise<unknown> {
  const read = await disk.read(path, maxBytes)
  if (read.found === 'missing') return undefined
  const value = read.found === 'bytes' ? parseJson(read.bytes.toString('utf8')) : undefined
  if (value === undefined) log.warn({ path }, 'cannot read a file of the root; not imported')
  return value
}

async function unused(root: string, { disk }: ReferencePorts): Promise<readonly string[]> {
  const found: string[] = []
  for (const file of unusedFiles)
    if ((await disk.stat(join(root, file))) !== 'missing') found.push(`${file}: the board does not use it`)
  const runtime = await readInside(root, runtimeFile)
  const parsed = runtime.found === 'text' ? parseObject(runtime.text) : undefined
  if (parsed !== undefined && 'value' in parsed)
    found.push(...normalize(parsed.value).removed.map((key) => `${runtimeFile}: ${key}: unsupported key`))
  return found
}
