/**
 * Imports state/recovery.state.json and state/budget.state.json of a reference task root into the log, once, before the board
 * overwrites these files as caches. The import never changes what the log says; each task is imported once, even after a
 * crash; a copy of each file is stored next to it. Entries that cannot be understood are logged.
 */
import { join } from 'node:path'
import type { Log } from '@bellwether/base'
import type { Disk } from '../../ports/disk/disk.js'
import type { Ids } from '../../ports/ids.js'
import { textField } from '../tasks/task-fields.js'
import { budgetCacheFile, budgetsOf, type BudgetEntry } from '../policies/budget.js'
import { parseObject } from '../policies/inside.js'
import { recoveriesOf, recoveryCacheFile, type RecoveryEntry } from '../policies/recovery.js'
import { entriesIn, referenceBudget, referenceRecovery, type Found } from './reference-state.js'
import type { Board, BoardState, Draft, Task } from '../log/task.js'

export interface ImportPorts {
  readonly disk: Pick<Disk, 'read' | 'stat' | 'createExclusive'>
  readonly ids: Ids
  readonly log: Log
}

// 50,000 tasks with a few entries each; a larger file is not a state file.
const fileMaxBytes = 64 * 2 ** 20
// One write holds the lock; thousands of tasks need several writes.
const perWriteMax = 500
/** The field that marks an imported task. */
const mark = 'importedState'

export async function importStateFiles(board: Board, ports: ImportPorts) {
  const recovery = await read(board.root, recoveryCacheFile, referenceRecovery, ports)
  const budget = await read(board.root, budgetCacheFile, referenceBudget, ports)
  const { log } = ports
  const ids = [...new Set([...recovery.keys(), ...budget.keys()])]
  const sum = { tasks: 0, recovery: 0, budget: 0 }
  const draftOf = (state: BoardState, taskId: string): Draft | null => {
    const task = state.tasks.get(taskId)
    if (task === undefined || Object.hasOwn(task.fields, mark)) return null
    return importDraft(task, recovery.get(taskId) ?? [], budget.get(taskId) ?? [])
  }
  const todo = ids.filter((taskId) => draftOf(board.state, taskId) !== null)
  for (let from = 0; from < todo.length; from += perWriteMax) {
    const chunk = todo.slice(from, from + perWriteMax)
    // Decided under the lock: another process may have imported them.
    const lines = await board.write((state) => chunk.flatMap((taskId) => draftOf(state, taskId) ?? []))
    for (const { payload } of lines) {
      const counts = payload[mark] as { readonly recovery: number; readonly budget: number }
      sum.tasks += 1
      sum.recovery += counts.recovery
      sum.budget += counts.budget
    }
  }
  const unknownTasks = ids.filter((taskId) => !board.state.tasks.has(taskId))
  if (unknownTasks.length > 0)
    log.warn(
      { tasks: unknownTasks.slice(0, 20), count: unknownTasks.length },
      'state files contain tasks that do not exist',
    )
  if (sum.tasks > 0) log.info({ ...sum }, 'imported attempts and usage from the state files')
  return sum
}

/** Adds the entries that the log does not have. */
function importDraft(task: Task, recovery: readonly RecoveryEntry[], budget: readonly BudgetEntry[]): Draft | null {
  const [decided, used] = [recoveriesOf(task), budgetsOf(task)]
  const newDecisions = recovery.filter(({ reasonCode }) => !decided.has(reasonCode))
  const newUsage = budget.filter(({ agent }) => !used.has(agent))
  if (newDecisions.length === 0 && newUsage.length === 0) return null
  const pending = newDecisions.find(({ nextAssignee }) => task.reason === `recovery_pending:${nextAssignee}`)
  const waits = task.status === 'blocked' && textField(task, 'reasonCode') === null && pending !== undefined
  return {
    taskId: task.taskId,
    type: 'task_noted',
    actor: 'import',
    payload: {
      [mark]: { recovery: newDecisions.length, budget: newUsage.length, from: [recoveryCacheFile, budgetCacheFile] },
      ...(newDecisions.length === 0
        ? {}
        : { recovery: { ...Object.fromEntries(decided), ...byName(newDecisions, ({ reasonCode }) => reasonCode) } }),
      ...(newUsage.length === 0
        ? {}
        : { budget: { ...Object.fromEntries(used), ...byName(newUsage, ({ agent }) => agent) } }),
      // The reference names only the next agent; the board also needs the reason code.
      ...(waits ? { reasonCode: pending.reasonCode } : {}),
    },
  }
}

const byName = <E>(entries: readonly E[], name: (entry: E) => string): Record<string, E> =>
  Object.fromEntries(entries.map((entry) => [name(entry), entry]))

/** The reference's entries of one file, by task. */
async function read<E extends { readonly taskId: string }>(
  root: string,
  file: string,
  parse: (found: Found) => E | 'ours' | undefined,
  { disk, ids, log }: ImportPorts,
): Promise<Map<string, E[]>> {
  const path = join(root, file)
  const byTask = new Map<string, E[]>()
  const contents = await disk.read(path, fileMaxBytes)
  if (contents.found === 'missing') return byTask
  const parsed = contents.found === 'bytes' ? parseObject(contents.bytes.toString('utf8')) : { why: contents.found }
  const all = 'value' in parsed ? entriesIn(parsed.value) : []
  let invalid = 'value' in parsed ? 0 : 1
  if ('why' in parsed) log.warn({ file, why: parsed.why }, 'cannot read a state file; not imported')
  for (const found of all) {
    const entry = parse(found)
    if (entry === 'ours') continue
    if (entry === undefined) invalid += 1
    else byTask.set(entry.taskId, [...(byTask.get(entry.taskId) ?? []), entry])
  }
  if (invalid > 0 && all.length > 0)
    log.warn({ file, entries: invalid }, 'some entries of a state file are invalid; not imported')
  // A copy of the original: the board's cache will replace it.
  if (contents.found === 'bytes' && (byTask.size > 0 || invalid > 0))
    await disk.createExclusive(backupName(path), `${path}.${ids.next()}.draft`, contents.bytes)
  return byTask
}

const backupName = (path: string): string => path.replace(/\.json$/, '.before-import.json')
