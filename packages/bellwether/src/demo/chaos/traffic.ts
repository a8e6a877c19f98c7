/**
 * What goes on while chaos strikes: turns and tasks at a steady rate, as a careful client sends them, again with the same key where
 * no answer came. Always: what the house has acknowledged is kept, to be asked about at the end.
 */
import { Terminal } from '@bellwether/protocol'
import { cast } from '../cast.js'
import { enqueue, type Play } from '../play.js'
import type { SeededRandom } from '@bellwether/base'

const turnEveryMs = 300
const taskEveryMs = 4_000
// Two senders: one that waits for a house that is down does not hold the other's rhythm afterwards.
const senders = 2
const forkEvery = 15

export async function traffic(play: Play, dice: SeededRandom, over: AbortSignal): Promise<void> {
  await Promise.all([...Array.from({ length: senders }, () => turns(play, dice, over)), tasks(play, dice, over)])
}

async function turns(play: Play, dice: SeededRandom, over: AbortSignal): Promise<void> {
  const agents = [...cast.jugglers, ...cast.tellers, ...cast.writers, ...cast.researchers]
  for (let number = 1; !over.aborted; number += 1) {
    const agent = number % forkEvery === 0 ? cast.forker : dice.pick(agents)!
    await enqueue(play, agent, `Number ${number}.`)
    await play.clock.sleep(turnEveryMs * senders, over)
  }
}

async function tasks(play: Play, dice: SeededRandom, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    await play.clock.sleep(taskEveryMs, over)
    if (over.aborted) return
    const taskId = `chaos-${play.ids.next()}`
    const page = `pages/${taskId.slice(-8)}.txt`
    const agent = dice.pick([cast.printer, cast.printer, cast.boaster])!
    const task = { taskId, title: `Set ${page}`, instruction: `Set ${page}.`, agent, verify: [`test -s ${page}`] }
    try {
      await play.client.insist('POST', '/board/tasks', task)
    } catch (error) {
      // Its first request was heard, and only the answer was lost.
      if (!(error instanceof Terminal && error.message.includes('task_exists'))) throw error
    }
    play.taskIds.add(taskId)
  }
}
