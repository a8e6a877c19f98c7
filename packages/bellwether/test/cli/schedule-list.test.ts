/** `bellwether schedule list`, with a server that answers as the real one. */
import { createServer } from 'node:http'
import { expect, it, onTestFinished } from 'vitest'
import { listen } from '../support/servers/listen.js'
import { inProcess } from './running-up.js'

it('lists an invalid schedule with the file, the line and the problem below the table', async () => {
  const problem =
    'schedules/bad.toml:1: "cron": "61 2 * * *" is not a cron expression. Write five fields, for example …'
  const at = '2026-01-01T00:00:00.000Z'
  const bad = {
    ...{ schedule: 'bad', source: 'file', origin: 'host:/project/agents', definition: null, problem },
    ...{ paused_at: null, paused_by: null, created_at: at, updated_at: at, updated_by: 'file' },
    ...{ open: 0, last_fire: null, next_fires: [] },
  }
  const server = createServer((_request, response) =>
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ schedules: [bad], cursor: null })),
  )
  const port = await listen(server)
  onTestFinished(() => void server.close())
  const list = ['schedule', 'list', '--server', `http://127.0.0.1:${port}`, '--key', 'key']
  const { out } = await inProcess(list)
  expect(out).toMatch(/^bad +invalid /m)
  expect(out.trimEnd().split('\n').at(-1)).toBe(problem)
})
