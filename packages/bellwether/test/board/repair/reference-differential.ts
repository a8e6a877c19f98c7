/**
 * Compares the product with the model of the reference's rules on generated logs, legal and damaged. Also checks that no task that the
 * undamaged log finished can be dispatched again. As a command: npx tsx --conditions=@bellwether/source
 * packages/bellwether/test/board/repair/reference-differential.ts --logs 5000 --seed 1
 */
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { seededRandom, type SeededRandom } from '@bellwether/base'
import { Reader } from '../../../src/board/log/fold/replay.js'
import { defaultRecovery } from '../../../src/board/policies/recovery.js'
import { readiness } from '../../../src/board/tasks/ready.js'
import type { LogFile } from '../../../src/ports/disk/disk.js'
import { model, type ModelTask } from './reference-model.js'

export interface Differential {
  readonly logs: number
  readonly lines: number
  readonly damagedLogs: number
  readonly held: number
  /** The first difference, with its log; undefined: none. */
  readonly difference: { readonly seed: number; readonly what: string; readonly log: string } | undefined
}

type Move = readonly [type: string, to: string, payload?: object]
type Pick = <T>(from: readonly T[]) => T

/** One log as the reference writes it, mostly legal, with a few lines that do not count. */
function generate(random: SeededRandom, pick: Pick): string[] {
  const lines: string[] = []
  const status = new Map<string, string>()
  let token = 0
  const write = (taskId: string, type: string, payload: object, more: object = {}) =>
    lines.push(
      JSON.stringify({
        eventId: `e-${lines.length}`,
        taskId,
        type,
        messageType: '[TASK]',
        actor: pick(['coder', 'debugger', 'ann']),
        at: `2026-02-27T00:00:${String(lines.length % 60).padStart(2, '0')}Z`,
        payload,
        ...more,
      }),
    )
  const length = 4 + Math.floor(random.next() * 40)
  while (lines.length < length) {
    const fresh = `T-${status.size + 1}`
    if (status.size === 0 || (status.size < 6 && random.next() < 0.25)) {
      const payload = {
        title: `Do ${fresh}`,
        assigneeHint: 'coder',
        ...(random.next() < 0.3 ? { dependsOn: ['T-1'] } : {}),
      }
      write(fresh, pick(['task_created', 'task_created', 'diag_task_created']), payload)
      status.set(fresh, 'pending')
      continue
    }
    const id = pick([...status.keys()])
    const from = status.get(id)!
    const more = random.next() < 0.2 ? { token: (token += random.next() < 0.8 ? 1 : 0) } : {}
    const move = (type: string, to: string, payload: object = {}) => {
      write(id, type, { from, to, ...payload }, more)
      status.set(id, to)
    }
    const roll = random.next()
    const moved = lines.filter((line) => !line.includes('task_created'))
    if (roll < 0.03 && moved.length > 0) lines.push(pick(moved))
    else if (roll < 0.06) write(id, 'task_checkpoint', {})
    else if (roll < 0.09) write('T-404', 'task_done', {})
    else if (roll < 0.13) write(id, pick(['task_done', 'task_review', 'task_failed', 'task_started']), {}, { token: 0 })
    else if (roll < 0.2)
      write(id, 'task_noted', pick([{ priority: 3 }, { note: 'x' }, { damage: null }, { blockedBy: ['T-1'] }]), more)
    else if (from === 'pending')
      move(
        ...pick<Move>([
          ['task_claimed', 'claimed', { owner: 'coder' }],
          ['task_blocked', 'blocked', { reason: 'r' }],
        ]),
      )
    else if (from === 'claimed')
      move(
        ...pick<Move>([
          ['task_claimed', 'in_progress', { owner: 'debugger' }],
          ['task_done', 'done', { result: 'x' }],
        ]),
      )
    else if (from === 'in_progress')
      move(
        ...pick<Move>([
          ['task_claimed', 'in_progress', { owner: 'ann' }],
          ['task_done', 'done', {}],
          ['task_blocked', 'blocked', { reason: 'r' }],
          ['task_review', 'review', {}],
          ['task_failed', 'failed', {}],
        ]),
      )
    else if (from === 'done') {
      if (random.next() < 0.1) move('task_reopened', 'pending')
      else write(id, 'task_noted', { note: 'after' }, more)
    } else move('task_claimed', 'in_progress', { owner: 'coder' })
  }
  return lines
}

/** Damages some lines in place. Returns the ids of tasks that lost several lines without a trace of damage. */
function damage(
  lines: string[],
  random: SeededRandom,
  pick: Pick,
): { readonly bytes: Buffer; readonly cut: ReadonlySet<string> } {
  const cuts = new Map<string, number>()
  const bytes = lines.map((line) => {
    if (random.next() > 0.12) return Buffer.from(`${line}\n`)
    const at = 1 + Math.floor(random.next() * (line.length - 2))
    switch (pick(['zero', 'cut', 'control', 'glue', 'binary', 'key', 'words', 'blank'])) {
      case 'zero':
        return Buffer.concat([Buffer.alloc(line.length), Buffer.from('\n')])
      case 'cut': {
        const id = /"taskId":"([^"]*)"/.exec(line)?.[1] ?? ''
        cuts.set(id, (cuts.get(id) ?? 0) + 1)
        return Buffer.from(`${line.slice(0, at)}\n`)
      }
      case 'control':
        return Buffer.from(`${line.slice(0, at)}\u0001${line.slice(at + 1)}\n`)
      case 'glue':
        return Buffer.from(line)
      case 'binary':
        return Buffer.concat([
          Buffer.from(line.slice(0, at)),
          Buffer.of(0xff, 0xfe),
          Buffer.from(`${line.slice(at)}\n`),
        ])
      case 'key':
        return Buffer.from(`${line.replace(pick(['"taskId"', '"actor"', '"payload"', '"eventId"']), '"x"')}\n`)
      case 'words':
        return Buffer.from(`${line}\n<<<<<<< HEAD\n`)
      default:
        return Buffer.from(`${line}\n \t\n`)
    }
  })
  return { bytes: Buffer.concat(bytes), cut: new Set([...cuts].filter(([, count]) => count > 1).map(([id]) => id)) }
}

const inMemory = (bytes: Buffer): LogFile => ({
  size: async () => bytes.length,
  read: async (buffer, position) => bytes.copy(buffer, 0, position),
  append: async () => 0,
  flush: async () => undefined,
  identity: async () => 'memory',
  close: async () => undefined,
})

async function product(bytes: Buffer): Promise<Reader> {
  const reader = new Reader()
  await reader.read(inMemory(bytes), { complete: true })
  return reader
}

const rules = { firstAgent: 'coder', recovery: defaultRecovery }

/** What differs; null: nothing. */
async function compare(bytes: Buffer): Promise<{ what: string | null; reader: Reader; tasks: Map<string, ModelTask> }> {
  const expected = model(bytes)
  const reader = await product(bytes)
  const tasks = Object.fromEntries(
    reader.fold
      .tasks()
      .map(({ taskId, title, status, assignee, reason, dependencies, priority, damage: held = null }) => [
        taskId,
        { title, status, owner: assignee, reason, dependencies: [...dependencies], priority, held },
      ]),
  )
  const problems = reader.report.issues.map(({ line, kind }) => ({ line, kind }))
  const found = JSON.stringify({ tasks, problems, events: reader.fold.eventCount })
  const wanted = JSON.stringify({
    tasks: Object.fromEntries(expected.tasks),
    problems: expected.problems,
    events: expected.events,
  })
  return { what: found === wanted ? null : `model ${wanted}\nproduct ${found}`, reader, tasks: expected.tasks }
}

export async function differential(logs: number, seed: number): Promise<Differential> {
  const sum = { logs: 0, lines: 0, damagedLogs: 0, held: 0 }
  for (let index = 0; index < logs; index += 1) {
    const random = seededRandom(seed + index)
    const pick: Pick = (from) => from[Math.floor(random.next() * from.length)]!
    const lines = generate(random, pick)
    const legal = Buffer.from(`${lines.join('\n')}\n`)
    const whole = await compare(legal)
    const fail = (what: string, log: Buffer): Differential => ({
      ...sum,
      difference: { seed: seed + index, what, log: log.toString('latin1') },
    })
    if (whole.what !== null) return fail(whole.what, legal)
    sum.logs += 1
    sum.lines += lines.length
    if (index % 2 === 0) continue
    const { bytes, cut } = damage(lines, random, pick)
    const damaged = await compare(bytes)
    if (damaged.what !== null) return fail(damaged.what, bytes)
    sum.damagedLogs += 1
    sum.held += [...damaged.tasks.values()].filter(({ held }) => held !== null).length
    const state = damaged.reader.fold.state()
    for (const [taskId, { status }] of whole.tasks) {
      const task = state.tasks.get(taskId)
      const isReleased = lines.some((line) => line.includes(`"${taskId}"`) && line.includes('"damage":null'))
      if (status !== 'done' || task === undefined || cut.has(taskId) || isReleased) continue
      if (readiness({ ...task, dependencies: [] }, state, 0, rules).ready)
        return fail(`${taskId} was done and can be dispatched again`, bytes)
    }
  }
  return { ...sum, difference: undefined }
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { logs: { type: 'string' }, seed: { type: 'string' } } })
  const result = await differential(Number(values.logs ?? 5_000), Number(values.seed ?? 1))
  process.stdout.write(`${JSON.stringify(result, undefined, 2)}\n`)
  if (result.difference !== undefined) process.exitCode = 1
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()
