/**
 * The load during chaos: healthy turns and tasks at a steady rate, and poison turns between them. A request without an answer is
 * repeated with the same key. Every acknowledged turn and task is recorded for the check at the end.
 */
import type { SeededRandom } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { actors } from '../actors.js'
import { enqueue, readTurn, newId, type Context } from '../context.js'
import { within } from './faults.js'
import { commands, functions, functionTarget } from './project.js'

export interface Traffic {
  readonly turnEveryMs: number
  readonly taskEveryMs: number
  readonly poisonEvery: { readonly leastMs: number; readonly mostMs: number }
  readonly poisons: readonly string[]
  /** Each poison is sent once per round, in this order, instead of at random until the round ends. */
  readonly once?: boolean
}

/** About 0.5 of a core of the machine on which it was measured. */
export const rates: Readonly<Record<'full' | 'quick', Traffic>> = {
  full: {
    turnEveryMs: 1_500,
    taskEveryMs: 10_000,
    poisonEvery: { leastMs: 40_000, mostMs: 120_000 },
    poisons: [commands.killer, functions.thrower, functions.hog, functions.blocker, functions.blocker],
  },
  // A turn that kills its worker ends only after several workers have died: it comes first, and each of them once.
  quick: {
    turnEveryMs: 2_000,
    taskEveryMs: 6_000,
    poisonEvery: { leastMs: 200, mostMs: 600 },
    poisons: [commands.killer, functions.hog, functions.thrower, functions.blocker],
    once: true,
  },
}

// Two senders: one that waits for a server that is down does not delay the other.
const senders = 2
const forkEvery = 15
const healthy = [
  ...actors.jugglers,
  ...actors.echoes,
  ...actors.writers,
  ...actors.researchers,
  ...commands.runners,
  ...functions.quick,
  functions.asker,
  commands.leaver,
]

/** Function agents are added to the roster by a client; the other agents come from files. */
export async function addFunctionAgents({ client }: Context): Promise<void> {
  const names = [...functions.quick, functions.asker, functions.blocker, functions.thrower, functions.hog]
  await client.insist('PUT /projects/:project/agents', {
    body: { agents: names.map((name) => ({ agent_id: name, worker_target: functionTarget })) },
  })
}

export async function traffic(
  context: Context,
  rate: Traffic,
  random: SeededRandom,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all([
    ...Array.from({ length: senders }, () => turns(context, rate, random, signal)),
    tasks(context, rate, random, signal),
    poison(context, rate, random, signal),
  ])
}

async function turns(context: Context, { turnEveryMs }: Traffic, random: SeededRandom, signal: AbortSignal) {
  for (let number = 1; !signal.aborted; number += 1) {
    const agent = number % forkEvery === 0 ? actors.forker : random.pick(healthy)
    await enqueue(context, agent, `Turn ${number}.`)
    await context.clock.sleep(turnEveryMs * senders, signal)
  }
}

async function poison(context: Context, rate: Traffic, random: SeededRandom, signal: AbortSignal) {
  const { poisonEvery, poisons, once = false } = rate
  let next = once ? [...poisons] : []
  let killer: string | undefined
  while (!signal.aborted) {
    await context.clock.sleep(within(random, poisonEvery), signal)
    if (signal.aborted) return
    if (next.length === 0) {
      if (once) return
      next = random.shuffled(poisons)
    }
    const agent = next.shift()!
    // Several workers die before a killer is isolated; two killers at once would leave hardly any time for healthy turns.
    if (agent === commands.killer && killer !== undefined && (await readTurn(context, killer)).outcome === null)
      continue
    const turnId = await enqueue(context, agent, 'Do harm.')
    if (agent === commands.killer) killer = turnId
    context.faults[`${agent} turn`] = (context.faults[`${agent} turn`] ?? 0) + 1
  }
}

async function tasks(context: Context, { taskEveryMs }: Traffic, random: SeededRandom, signal: AbortSignal) {
  while (!signal.aborted) {
    await context.clock.sleep(taskEveryMs, signal)
    if (signal.aborted) return
    const taskId = `chaos-${newId()}`
    const page = `pages/${taskId.slice(-8)}.txt`
    const agent = random.pick([actors.printer, actors.printer, actors.boaster])
    const task = { taskId, title: `Set ${page}`, instruction: `Set ${page}.`, agent, verify: [`test -s ${page}`] }
    try {
      await context.client.insist('POST /board/tasks', { body: task })
    } catch (error) {
      // The first request succeeded and only its response was lost.
      if (!(error instanceof Terminal && error.code === 'task_exists')) throw error
    }
    context.taskIds.add(taskId)
  }
}
