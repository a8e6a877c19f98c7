/**
 * The load during chaos: turns and tasks at a steady rate. A request without an answer is repeated with the same key. Every
 * acknowledged turn and task is recorded for the check at the end.
 */
import type { SeededRandom } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { actors } from '../actors.js'
import { enqueue, newId, type Context } from '../context.js'

const turnEveryMs = 300
const taskEveryMs = 4_000
// Two senders: one that waits for a server that is down does not delay the other.
const senders = 2
const forkEvery = 15

export async function traffic(context: Context, random: SeededRandom, signal: AbortSignal): Promise<void> {
  await Promise.all([
    ...Array.from({ length: senders }, () => turns(context, random, signal)),
    tasks(context, random, signal),
  ])
}

async function turns(context: Context, random: SeededRandom, signal: AbortSignal): Promise<void> {
  const agents = [...actors.jugglers, ...actors.echoes, ...actors.writers, ...actors.researchers]
  for (let number = 1; !signal.aborted; number += 1) {
    const agent = number % forkEvery === 0 ? actors.forker : random.pick(agents)!
    await enqueue(context, agent, `Turn ${number}.`)
    await context.clock.sleep(turnEveryMs * senders, signal)
  }
}

async function tasks(context: Context, random: SeededRandom, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await context.clock.sleep(taskEveryMs, signal)
    if (signal.aborted) return
    const taskId = `chaos-${newId()}`
    const page = `pages/${taskId.slice(-8)}.txt`
    const agent = random.pick([actors.printer, actors.printer, actors.boaster])!
    const task = { taskId, title: `Set ${page}`, instruction: `Set ${page}.`, agent, verify: [`test -s ${page}`] }
    try {
      await context.client.insist('POST /board/tasks', { body: task })
    } catch (error) {
      // The first request succeeded and only its response was lost.
      if (!(error instanceof Terminal && error.message.includes('task_exists'))) throw error
    }
    context.taskIds.add(taskId)
  }
}
