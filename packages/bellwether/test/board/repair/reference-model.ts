/**
 * A model of the rules for a log, written from docs/board-files.md and the seeds, without the product's code: which lines count, what
 * they do to a task, and which tasks a damaged or illegal line holds. Slow and plain; the differential compares the product with it.
 */

export interface ModelTask {
  title: string
  status: string
  owner: string | null
  reason: string | null
  dependencies: string[]
  priority: number
  held: { line: number; kind: string } | null
}

export interface ModelResult {
  readonly tasks: Map<string, ModelTask>
  readonly problems: { line: number; kind: string }[]
  readonly events: number
}

type Fields = Record<string, unknown>

const moves: Record<string, readonly string[]> = {
  pending: ['claimed', 'blocked'],
  claimed: ['in_progress', 'done', 'blocked'],
  in_progress: ['review', 'done', 'blocked', 'failed'],
  review: ['done', 'in_progress', 'blocked'],
  blocked: ['in_progress', 'claimed'],
  failed: ['in_progress'],
  done: [],
}
const targets: Record<string, string | null> = {
  task_created: 'pending',
  diag_task_created: 'pending',
  task_claimed: 'claimed',
  task_started: 'in_progress',
  task_review: 'review',
  task_done: 'done',
  task_blocked: 'blocked',
  task_failed: 'failed',
  task_reopened: 'in_progress',
  task_noted: null,
  board_control: null,
}
const flaws = ['invalid_transition', 'broken_json', 'not_utf8', 'missing_keys', 'too_long', 'too_deep']
const required = ['eventId', 'taskId', 'type', 'actor', 'at', 'payload']

/** The status after an event; undefined: not allowed. */
function after(status: string, type: string, { from, to }: Fields): string | undefined {
  const target = targets[type] ?? null
  if (target === null) return status
  if (from === status && to === status && target === status) return status
  if (from === status && type === 'task_claimed' && to === 'in_progress')
    return status === 'in_progress' || moves[status]!.includes('in_progress') ? 'in_progress' : undefined
  if (from === status && type === 'task_reopened' && to === 'pending') return 'pending'
  return moves[status]!.includes(target) ? target : undefined
}

export function model(log: Buffer): ModelResult {
  const tasks = new Map<string, ModelTask>()
  const problems: ModelResult['problems'] = []
  const seen = new Set<string>()
  let [token, events, number] = [0, 0, 0]
  const hold = (id: string, line: number, kind: string) => {
    const task = tasks.get(id)
    if (task !== undefined && task.status !== 'done') task.held = { line, kind }
  }
  let rest = log
  while (rest.length > 0) {
    const end = rest.indexOf(0x0a)
    const raw = end < 0 ? rest : rest.subarray(0, end)
    rest = end < 0 ? Buffer.alloc(0) : rest.subarray(end + 1)
    number += 1
    if (raw.toString('latin1').trim() === '') continue
    const read = parse(raw)
    if ('kind' in read) {
      problems.push({ line: number, kind: read.kind })
      const names = touched(raw, read.kind === 'missing_keys')
      for (const id of names === 'all' ? tasks.keys() : names) hold(id, number, read.kind)
      continue
    }
    const { event } = read
    const before = tasks.get(event['taskId'] as string)?.status
    const kind = apply(event)
    if (kind === undefined) {
      const isFlawed = problems.some((one) => flaws.includes(one.kind))
      if (before === 'done' && isFlawed) hold(event['taskId'] as string, number, 'reopened')
      events += 1
      seen.add(event['eventId'] as string)
      if (typeof event['token'] === 'number') token = event['token']
      continue
    }
    problems.push({ line: number, kind })
    const isCreate = event['type'] === 'task_created' || event['type'] === 'diag_task_created'
    if (kind === 'invalid_transition' && !isCreate) hold(event['taskId'] as string, number, kind)
  }
  return { tasks, problems, events }

  function apply(event: Fields): string | undefined {
    const [id, type, payload] = [event['taskId'] as string, event['type'] as string, event['payload'] as Fields]
    if (typeof event['token'] === 'number' && event['token'] < token) return 'stale_token'
    if (seen.has(event['eventId'] as string)) return 'duplicate_event_id'
    if (!Object.hasOwn(targets, type)) return 'unknown_type'
    if (type === 'board_control') return undefined
    const task = tasks.get(id)
    if (type === 'task_created' || type === 'diag_task_created') {
      if (task !== undefined) return 'invalid_transition'
      const made: ModelTask = {
        title: '',
        status: 'pending',
        owner: null,
        reason: null,
        dependencies: [],
        priority: 0,
        held: null,
      }
      set(made, payload)
      tasks.set(id, made)
      return undefined
    }
    if (task === undefined) return 'missing_task'
    const status = after(task.status, type, payload)
    if (status === undefined) return 'invalid_transition'
    const changed = status !== task.status
    task.status = status
    set(task, payload)
    if (type === 'task_claimed' && !('owner' in payload) && !('assignee' in payload))
      task.owner = event['actor'] as string
    if (status !== 'blocked' && status !== 'failed') task.reason = null
    else if (typeof payload['reason'] === 'string') task.reason = payload['reason']
    else if (changed) task.reason = null
    if (type !== 'task_noted' || payload['damage'] === null) task.held = null
    return undefined
  }
}

function set(task: ModelTask, payload: Fields): void {
  if (typeof payload['title'] === 'string') task.title = payload['title']
  if (typeof payload['priority'] === 'number') task.priority = payload['priority']
  for (const key of ['owner', 'assignee']) if (typeof payload[key] === 'string') task.owner = payload[key]
  const wanted = payload['dependsOn'] ?? payload['dependencies']
  if (Array.isArray(wanted)) task.dependencies = wanted.filter((one): one is string => typeof one === 'string')
  if (Array.isArray(payload['blockedBy']))
    task.dependencies = [
      ...new Set([...(Array.isArray(wanted) ? task.dependencies : []), ...(payload['blockedBy'] as string[])]),
    ]
}

function parse(raw: Buffer): { event: Fields } | { kind: string } {
  const text = raw.toString('utf8')
  if (!Buffer.from(text).equals(raw)) return { kind: 'not_utf8' }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { kind: 'broken_json' }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { kind: 'broken_json' }
  const event = value as Fields
  const isMissing = required.some((key) =>
    key === 'payload'
      ? typeof event[key] !== 'object' || event[key] === null || Array.isArray(event[key])
      : typeof event[key] !== 'string' || (event[key] === '' && key !== 'taskId' && key !== 'actor'),
  )
  return isMissing ? { kind: 'missing_keys' } : { event }
}

/** The tasks that a damaged line may belong to. */
function touched(raw: Buffer, isJson: boolean): readonly string[] | 'all' {
  const text = raw.toString('utf8')
  const isText = Buffer.from(text).equals(raw)
  if (!isJson && isText && isPrefix(text)) return []
  const names = [...text.matchAll(/"taskId"\s*:\s*"([^"\\]*)"/g)].map(([, id]) => id!).filter((id) => !hasControl(id))
  if (names.length > 0) return names
  if (isJson) return text.includes('"eventId"') ? 'all' : []
  const isWords =
    isText &&
    text.split('').every((char) => (char >= ' ' || char === '\t' || char === '\r') && !'{}"\u007f'.includes(char))
  return isWords ? [] : 'all'
}

const hasControl = (text: string): boolean => text.split('').some((char) => char < ' ')

/** Whether some text after it could complete it to one JSON object that has one eventId. */
function isPrefix(text: string): boolean {
  if (!text.trimStart().startsWith('{') || text.split('"eventId"').length > 2) return false
  if (hasControl(text.replaceAll('\t', ''))) return false
  const open: string[] = []
  let quoted = false
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at]!
    if (quoted && char === '\\') at += 1
    else if (char === '"') quoted = !quoted
    else if (!quoted && (char === '{' || char === '[')) open.push(char)
    else if (!quoted && (char === '}' || char === ']')) {
      open.pop()
      if (open.length === 0) return false
    }
  }
  return true
}
