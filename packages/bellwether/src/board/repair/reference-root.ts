/**
 * Decides which values outside the log of a reference's task root the board needs: those that only its snapshot has, and its
 * governance (pause, freeze, aborts, approvals). A newer line of the log wins, finished work stays finished, and the result names
 * everything that is not taken. Pure; import-reference.ts reads the files and writes the lines.
 */
import { isObject, objectOf, type JsonObject } from '@bellwether/base'
import { z } from 'zod'
import { human } from '../policies/recovery.js'
import { draftsTo } from '../tasks/status-path.js'
import { taskStatuses, type BoardState, type Draft, type Task } from '../log/task.js'

export const importActor = 'import'

export interface Taken {
  readonly drafts: readonly Draft[]
  /** What the drafts take over, by name of the value. */
  readonly counts: Readonly<Record<string, number>>
  /** What is not taken, with the reason. */
  readonly notTaken: readonly string[]
}

/** The snapshot of the reference: its tasks have a history and no runs. */
export function referenceTasks(snapshot: unknown): ReadonlyMap<string, JsonObject> | undefined {
  const tasks = isObject(snapshot) ? snapshot['tasks'] : undefined
  if (!isObject(tasks)) return undefined
  const entries = Object.entries(tasks).filter((entry): entry is [string, JsonObject] => isObject(entry[1]))
  const isReference = entries.some(([, task]) => 'history' in task && !('runs' in task))
  return isReference ? new Map(entries) : undefined
}

const status = z.enum(taskStatuses)
const number = z.number().finite()
/** Keys of the reference that are values of the task itself, or that the log has. */
const ownKeys: ReadonlySet<string> = new Set(
  'taskId title status owner createdAt updatedAt blockedReason history dependsOn depends_on dependencies blockedBy priority impact runs fields'.split(
    ' ',
  ),
)

export function takeTask(state: BoardState, taskId: string, theirs: JsonObject): Taken {
  const counts: Record<string, number> = {}
  const count = (name: string) => void (counts[name] = (counts[name] ?? 0) + 1)
  const notTaken: string[] = []
  const task = state.tasks.get(taskId)
  const payload = valuesOf(task, theirs, count)
  const drafts: Draft[] = []
  if (task === undefined) {
    count('tasks')
    drafts.push({ taskId, type: 'task_created', actor: importActor, payload })
  } else if (Object.keys(payload).length > 0) drafts.push({ taskId, type: 'task_noted', actor: importActor, payload })
  const wanted = status.safeParse(theirs['status']).data
  const have = task?.status ?? 'pending'
  if (wanted !== undefined && wanted !== have) {
    const isNewer = task === undefined || timeOf(theirs['updatedAt']) >= timeOf(task.updatedAt)
    const reason = text(theirs['blockedReason'])
    const owner = text(theirs['owner'])
    const moved = { ...(reason === null ? {} : { reason }), ...(owner === null ? {} : { owner }) }
    const moves = isNewer ? draftsTo({ taskId, status: have }, wanted, importActor, moved) : null
    if (moves === null) notTaken.push(`${taskId}: status "${wanted}" of the snapshot; the log says "${have}"`)
    else {
      count('statuses')
      drafts.push(...moves)
    }
  }
  return { drafts, counts, notTaken }
}

/** The values that the snapshot has and the log lacks. */
function valuesOf(task: Task | undefined, theirs: JsonObject, count: (name: string) => void): JsonObject {
  const values: Record<string, unknown> = {}
  const put = (key: string, value: unknown, name = key) => {
    values[key] = value
    count(name)
  }
  const title = text(theirs['title'])
  if (title !== null && (task?.title ?? '') === '') put('title', title)
  const wanted = ['dependsOn', 'depends_on', 'dependencies', 'blockedBy'].flatMap((key) => idsIn(theirs[key]))
  const known = task?.dependencies ?? []
  if (wanted.some((id) => !known.includes(id))) put('dependencies', [...new Set([...known, ...wanted])])
  for (const key of ['priority', 'impact'] as const) {
    const value = number.safeParse(theirs[key]).data
    if (value !== undefined && value !== (task?.[key] ?? 0)) put(key, value)
  }
  const owner = text(theirs['owner'])
  if (owner !== null && owner !== task?.assignee && task?.status !== 'done') put('owner', owner, 'owners')
  for (const [key, value] of Object.entries(theirs)) {
    if (ownKeys.has(key) || value === null || Object.hasOwn(task?.fields ?? {}, key)) continue
    put(key, value, key === 'assigneeHint' ? 'assigneeHint' : 'fields')
  }
  return values
}

const governanceKeys: ReadonlySet<string> = new Set(['version', 'paused', 'frozen', 'aborts', 'approvals', 'updatedAt'])

/** What governance.control.json asks for. `pause`: why the whole board must not dispatch; null: it may. */
export function takeGovernance(
  state: BoardState,
  control: JsonObject,
  at: string,
): Taken & { readonly pause: string | null } {
  const drafts: Draft[] = []
  const counts: Record<string, number> = {}
  const notTaken: string[] = []
  const reasons: string[] = []
  const ids = new Map([...state.tasks.keys()].map((id) => [id.toUpperCase(), id]))
  const note = (taskId: string, payload: JsonObject, name: string) => {
    counts[name] = (counts[name] ?? 0) + 1
    drafts.push({ taskId, type: 'task_noted', actor: importActor, payload })
  }
  const signed = (reason: string) => ({ by: importActor, at, reason })
  if (control['paused'] === true) reasons.push('"paused" in state/governance.control.json')
  if (control['frozen'] === true) reasons.push('"frozen" in state/governance.control.json')
  const aborts = objectOf(control['aborts'])
  for (const [key, value] of Object.entries(aborts)) {
    if (key === 'tasks' && isObject(value)) {
      for (const [name, times] of Object.entries(value)) {
        const taskId = ids.get(name.toUpperCase())
        if (!(Number(times) > 0)) continue
        if (taskId === undefined) notTaken.push(`aborts.tasks.${name}: the task does not exist`)
        else note(taskId, { frozen: signed('an abort was pending in the reference') }, 'frozen')
      }
    } else if (Number(value) > 0)
      notTaken.push(`aborts.${key}: the board has no such counter; use task pause or task abort`)
  }
  for (const [key, raw] of Object.entries(objectOf(control['approvals']))) {
    const approval = objectOf(raw)
    const target = objectOf(approval['target'])
    const verdict = text(approval['status']) ?? 'pending'
    const name = text(target['taskId'])
    const taskId = name === null ? undefined : ids.get(name.toUpperCase())
    if (target['type'] !== 'dispatch' || (name !== null && taskId === undefined)) {
      notTaken.push(`approvals.${key}: its target is not the dispatch of a task of this root`)
    } else if (taskId === undefined) {
      if (verdict !== 'approved') reasons.push(`approval "${key}" for every dispatch is ${verdict}`)
    } else if (verdict === 'approved') {
      const by = text(approval['decidedBy']) ?? human
      note(taskId, { requiresApproval: true, approval: { by, at: text(approval['decidedAt']) ?? at } }, 'approvals')
    } else if (verdict === 'rejected') note(taskId, { frozen: signed(`approval "${key}" was rejected`) }, 'frozen')
    else note(taskId, { requiresApproval: true }, 'approvals')
  }
  for (const key of Object.keys(control)) if (!governanceKeys.has(key)) notTaken.push(`${key}: unknown key`)
  const pause = reasons.length === 0 ? null : reasons.join('; ')
  if (pause !== null) counts['paused'] = 1
  return { drafts, counts, notTaken: notTaken.map((one) => `state/governance.control.json: ${one}`), pause }
}

const text = (value: unknown): string | null => (typeof value === 'string' && value.trim() !== '' ? value.trim() : null)
const timeOf = (value: unknown): number => (typeof value === 'string' ? Date.parse(value) || 0 : 0)
const idsIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? (value as unknown[]).filter((one) => typeof one === 'string') : []
