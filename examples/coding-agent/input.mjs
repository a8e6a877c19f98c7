/** The input of a coding agent: one prompt as text, or, as claude's `--input-format stream-json`, one message per line until stdin ends. */
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const textOf = ({ content }) =>
  typeof content === 'string' ? content : content.map(({ text = '' }) => text).join('\n')

export async function openInput(isStream) {
  if (!isStream) {
    const first = { uuid: randomUUID(), text: readFileSync(0, 'utf8') }
    return { first, take: () => [], next: () => undefined, close: () => undefined }
  }
  const waiting = []
  let ended = false
  let wake = () => undefined
  const lines = createInterface({ input: process.stdin })
  lines.on('line', (line) => {
    const event = JSON.parse(line)
    if (event.type === 'user')
      waiting.push({
        uuid: event.uuid ?? randomUUID(),
        text: textOf(event.message),
        event: { type: 'user', message: event.message },
      })
    wake()
  })
  lines.on('close', () => {
    ended = true
    wake()
  })
  async function next() {
    while (waiting.length === 0 && !ended) await new Promise((resolve) => (wake = resolve))
    return waiting.shift()
  }
  const first = (await next()) ?? { uuid: randomUUID(), text: '' }
  return { first, take: () => waiting.splice(0), next, close: () => lines.close() }
}
