/**
 * A task root of the reference keeps attempts and usage in state/recovery.state.json and state/budget.state.json; ours keeps
 * them in the log, and those files are caches of it. So they are taken over once, as lines of the log, before anything could
 * write over them. Always: nothing that the log says is changed; a task is taken over once, however often the root is opened
 * and whoever crashed in between; the files as they were are kept beside. Entries that cannot be understood are told.
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

export interface Imported {
  readonly tasks: number
  readonly recovery: number
  readonly budget: number
}

interface Ports {
  readonly disk: Pick<Disk, 'read' | 'createExclusive'>
  readonly ids: Ids
  readonly log: Log
}

// Fifty thousand tasks with a few entries each; what is larger is not a state file.
const fileMaxBytes = 64 * 2 ** 20
// One write is one hold of the lock; thousands are taken over in several.
const perWriteMax = 500
/** The name of the field that says that a task was taken over. */
const mark = 'importedState'

export async function importStateFiles(board: Board, ports: Ports): Promise<Imported> {
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
    const some = todo.slice(from, from + perWriteMax)
    // Decided under the lock: another process may have taken them over meanwhile.
    const lines = await board.write((state) => some.flatMap((taskId) => draftOf(state, taskId) ?? []))
    for (const { payload } of lines) {
      const counts = payload[mark] as { readonly recovery: number; readonly budget: number }
      sum.tasks += 1
      sum.recovery += counts.recovery
      sum.budget += counts.budget
    }
  }
  const strangers = ids.filter((taskId) => !board.state.tasks.has(taskId))
  if (strangers.length > 0)
    log.warn(
      { tasks: strangers.slice(0, 20), count: strangers.length },
      'the state files speak of tasks that do not exist',
    )
  if (sum.tasks > 0) log.info({ ...sum }, 'attempts and usage were taken over from the state files')
  return sum
}

/** What was there stays; what the log does not have comes from the files. */
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
      // The reference says in its reason whom it waits for; ours also says for what.
      ...(waits ? { reasonCode: pending.reasonCode } : {}),
    },
  }
}

const byName = <E>(entries: readonly E[], name: (entry: E) => string): Record<string, E> =>
  Object.fromEntries(entries.map((entry) => [name(entry), entry]))

/** The entries of one file that are the reference's, by task. */
async function read<E extends { readonly taskId: string }>(
  root: string,
  file: string,
  understand: (found: Found) => E | 'ours' | undefined,
  { disk, ids, log }: Ports,
): Promise<Map<string, E[]>> {
  const path = join(root, file)
  const byTask = new Map<string, E[]>()
  const told = await disk.read(path, fileMaxBytes)
  if (told.found === 'missing') return byTask
  const parsed = told.found === 'bytes' ? parseObject(told.bytes.toString('utf8')) : { why: `it is ${told.found}` }
  const all = 'value' in parsed ? entriesIn(parsed.value) : []
  let odd = 'value' in parsed ? 0 : 1
  if ('why' in parsed)
    log.warn({ file, why: parsed.why }, 'a state file cannot be read; what it says is not taken over')
  for (const found of all) {
    const entry = understand(found)
    if (entry === 'ours') continue
    if (entry === undefined) odd += 1
    else byTask.set(entry.taskId, [...(byTask.get(entry.taskId) ?? []), entry])
  }
  if (odd > 0 && all.length > 0) log.warn({ file, entries: odd }, 'some entries of a state file cannot be understood')
  // The file as it is, once: ours will be written in its place.
  if (told.found === 'bytes' && (byTask.size > 0 || odd > 0))
    await disk.createExclusive(backupName(path), `${path}.${ids.next()}.draft`, told.bytes)
  return byTask
}

const backupName = (path: string): string => path.replace(/\.json$/, '.before-import.json')
