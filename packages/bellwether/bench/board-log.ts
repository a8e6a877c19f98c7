/**
 * A log for the board's bench: tasks that are created, claimed, started and ended, many at a time, as a busy board writes
 * them. Always: the same count gives the same bytes, and every line is a legal one.
 */
import { createWriteStream } from 'node:fs'
import { once } from 'node:events'

const openAtOnce = 5_000
const agents = ['coder', 'debugger', 'invest-analyst', 'writer']

type Step = readonly [type: string, tag: string, payload: (at: number) => object]

const steps: readonly Step[] = [
  [
    'task_created',
    '[TASK]',
    (at) => ({ title: `Mend part ${at} of the house`, priority: at % 5, assigneeHint: agent(at) }),
  ],
  ['task_claimed', '[CLAIM]', (at) => ({ from: 'pending', to: 'claimed', owner: agent(at) })],
  ['task_started', '[CLAIM]', (at) => ({ run: { agent: agent(at) } })],
  ['task_review', '[REVIEW]', (at) => ({ from: 'in_progress', to: 'review', result: `draft ${at % 97}` })],
  ['task_done', '[DONE]', (at) => ({ from: 'review', to: 'done', result: `ready after look ${at % 7}` })],
]

function agent(at: number): string {
  return agents[at % agents.length]!
}

function uuid(at: number): string {
  const hex = at.toString(16).padStart(12, '0')
  return `019a8f00-${hex.slice(8)}-7${hex.slice(5, 8)}-9c4d-${Math.imul(at, 0x9e3779b1).toString(16).replace('-', 'a').padStart(12, '3')}`
}

export async function writeLog(path: string, events: number): Promise<void> {
  const out = createWriteStream(path)
  let text = ''
  const startMs = Date.parse('2026-01-01T00:00:00Z')
  for (let at = 0; at < events; at += 1) {
    // Wave after wave: each task of a wave takes its next step before any takes the one after.
    const wave = Math.floor(at / (openAtOnce * steps.length))
    const within = at % (openAtOnce * steps.length)
    const [type, messageType, payload] = steps[Math.floor(within / openAtOnce)]!
    const task = wave * openAtOnce + (within % openAtOnce)
    text += `${JSON.stringify({
      eventId: uuid(at),
      taskId: `T-${String(task).padStart(3, '0')}`,
      type,
      messageType,
      actor: agent(task),
      at: new Date(startMs + at * 250).toISOString(),
      payload: payload(task),
      token: 1 + Math.floor(at / 50),
    })}\n`
    if (text.length > 1_000_000) {
      if (!out.write(text)) await once(out, 'drain')
      text = ''
    }
  }
  out.end(text)
  await once(out, 'finish')
}
