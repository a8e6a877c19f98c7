/**
 * Logs for the board benchmark: tasks that are created, claimed, started and ended in waves, as on a busy board; or a board
 * with many waiting tasks. The same count gives the same bytes, and every line is legal.
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
    (at) => ({ title: `Fix part ${at} of the shop`, priority: at % 5, assigneeHint: agent(at) }),
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

/** Realistic text with quotes, line breaks and other scripts, as written by a program that escapes everything but ASCII. */
function escaped(payload: object, at: number): string {
  const escapedEntries = Object.entries(payload).map(([key, value]) => {
    const isText = key === 'title' || key === 'result'
    return [key, isText ? `${String(value)} "quoted" \\ back\n\tnew line é ü 日本 ${at % 1_000}` : (value as unknown)]
  })
  const text = JSON.stringify({ ...Object.fromEntries(escapedEntries), note: `say "${at}"\n` })
  return text.replaceAll(/[^\0-~]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Tasks of every priority; a third of them depend on another. */
export async function writeWaiting(path: string, tasks: number): Promise<void> {
  const startMs = Date.parse('2026-01-01T00:00:00Z')
  const out = createWriteStream(path)
  for (let at = 0; at < tasks; at += 1) {
    const payload = { title: `Do ${at}`, priority: at % 7, ...(at % 3 === 0 ? { dependencies: [`T-${at + 1}`] } : {}) }
    const event = { eventId: uuid(at), taskId: `T-${at}`, type: 'task_created', messageType: '[TASK]', actor: 'ann' }
    const more = { at: new Date(startMs + at * 250).toISOString(), payload, token: 1 }
    if (!out.write(`${JSON.stringify({ ...event, ...more })}\n`)) await once(out, 'drain')
  }
  out.end()
  await once(out, 'finish')
}

export async function writeLog(path: string, events: number, isEscaped = false): Promise<void> {
  const out = createWriteStream(path)
  let text = ''
  const startMs = Date.parse('2026-01-01T00:00:00Z')
  for (let at = 0; at < events; at += 1) {
    // In waves: each task of a wave takes its next step before any takes the one after.
    const wave = Math.floor(at / (openAtOnce * steps.length))
    const within = at % (openAtOnce * steps.length)
    const [type, messageType, payload] = steps[Math.floor(within / openAtOnce)]!
    const task = wave * openAtOnce + (within % openAtOnce)
    const head = {
      eventId: uuid(at),
      taskId: `T-${String(task).padStart(3, '0')}`,
      type,
      messageType,
      actor: agent(task),
      at: new Date(startMs + at * 250).toISOString(),
    }
    const payloadText = isEscaped ? escaped(payload(task), at) : JSON.stringify(payload(task))
    text += `${JSON.stringify(head).slice(0, -1)},"payload":${payloadText},"token":${1 + Math.floor(at / 50)}}\n`
    if (text.length > 1_000_000) {
      if (!out.write(text)) await once(out, 'drain')
      text = ''
    }
  }
  out.end(text)
  await once(out, 'finish')
}
