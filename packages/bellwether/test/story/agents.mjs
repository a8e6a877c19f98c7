/**
 * The agents of the story: an author, who plans, lets a helper work and writes a file, and the helper. Each step records its usage under
 * an id that a repeated execution uses again. After its record, a step whose gate is closed reports that it has reached the gate and
 * waits until the test removes the gate's file.
 */
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const step = async (turn, task, name, tokens) => {
  const metadata = { usage: { input_tokens: tokens, output_tokens: 0 }, cost_micros: tokens * 10 }
  const stepId = `${turn.turn.agentTurnId}:${name}`
  await turn.record({ step: { stepId, phase: name, status: 'done', metadata } })
  const gate = join('gates', `${task}.${name}`)
  if (existsSync(gate)) await writeFile(`${gate}.reached`, '')
  while (existsSync(gate)) await sleep(10, undefined, { signal: turn.signal })
}

const author = async (turn) => {
  const task = turn.turn.payload.task_id
  if (turn.results.length === 0) {
    await step(turn, task, 'plan', 100)
    const tasks = [{ targetStrategy: 'reuse', targetRef: 'helper', instruction: task }]
    return { suspend: { calls: [{ toolCallId: turn.newId(), toolName: 'fork_join', args: {}, batch: { tasks } }] } }
  }
  const file = `${task}.txt`
  await writeFile(file, `written for ${task}`)
  await step(turn, task, 'write', 200)
  return { deliver: { text: JSON.stringify({ summary: 'written', files: [file] }) } }
}

const helper = async (turn) => {
  const { context } = await turn.hydrate()
  const { text: task } = context.find((card) => card.type === 'task.instruction').content
  await step(turn, task, 'help', 50)
  return { deliver: { text: 'helped' } }
}

export default { author, helper }
