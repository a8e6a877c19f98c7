/** One turn that uses every feature, with real processes: tools, an MCP server, fifty children of which three fail, and a person. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { expect, it, onTestFinished } from 'vitest'
import { readTrail } from '../../src/kernel/reads/trail.js'
import { replay } from '../../src/worker/replay/replay.js'
import { openKernel } from '../../src/kernel/kernel.js'
import { migrate } from '../../src/kernel/schema/migrate.js'
import { notifyBell } from '../../src/ports/bell/notify.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { openFakeProvider, type FakeAnswer } from '../support/agents/fake-openai.js'
import { freshDatabase, testFolder } from '../support/postgres.js'
import { fakeMcp, runCli } from '../support/process.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'
import { listen } from '../support/servers/listen.js'

const children = 50
const lead = `---
model: openai/m
tools: [north, east, west, 'mcp:notes/echo', fork_join, ask_person]
must_end_with: submit_result
turn_deadline_seconds: 300
budget:
  max_tokens: 1000000
---
You lead.
`
const hand = `---
command: [sh, -c, 'read -r _; grep -q "number 1[0-2] " && exit 7; echo done']
---
You help.
`

/** The model's answers, in order; the model knows only the conversation. */
const lines: readonly FakeAnswer[] = [
  { text: 'First I look around.', calls: ['north', 'east', 'west'].map((name) => ({ name, args: { of: 'here' } })) },
  { calls: [{ name: 'notes__echo', args: { text: 'remember the well' } }] },
  {
    calls: [
      {
        name: 'fork_join',
        args: {
          tasks: Array.from({ length: children }, (_, at) => ({
            agent: 'hand',
            target_strategy: 'new',
            instruction: `Do number ${at} now.`,
          })),
        },
      },
    ],
  },
  {
    calls: [
      { name: 'ask_person', args: { question: 'Shall I go on?', choices: ['yes', 'no'], deadline_seconds: 600 } },
    ],
  },
  { calls: [{ name: 'submit_result', args: { text: 'All is done.' } }] },
]

async function place() {
  const { url, db, drop } = await freshDatabase()
  await migrate(db)
  const folder = await testFolder()
  await mkdir(join(folder, 'agents'))
  const bell = notifyBell({ url, log: quietLog })
  onTestFinished(async () => {
    await bell.close()
    await drop()
    await rm(folder, { recursive: true, force: true })
  })
  return { url, db, folder, kernel: openKernel({ db, bell, ids: uuidv7(systemClock, systemRandom) }) }
}

it('[T4.4] [T3.1d] a turn with three tools, an MCP tool, fifty children of which three fail and a person succeeds', async () => {
  const { url, db, folder, kernel } = await place()
  const provider = await openFakeProvider()
  provider.behave(({ body }) => lines[body.messages.filter((one) => one.role === 'assistant').length] ?? {})
  const weather = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ seen: request.url }))
  })
  const port = await listen(weather)
  const tool = (name: string) => ({
    description: `Looks ${name}.`,
    url: `http://127.0.0.1:${port}/${name}`,
    method: 'GET',
    allow_private: true,
  })
  const files = {
    'agents/lead.md': lead,
    'agents/hand.md': hand,
    'tools.json': JSON.stringify({
      tools: Object.fromEntries(['north', 'east', 'west'].map((name) => [name, tool(name)])),
    }),
    'mcp.json': JSON.stringify({ mcpServers: { notes: { command: process.execPath, args: [fakeMcp, 'stdio'] } } }),
  }
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  const env = {
    BELLWETHER__DATABASE__URL: url,
    BELLWETHER__NATS__URL: '',
    BELLWETHER__WORKER__POLL_SECONDS: '1',
    OPENAI_BASE_URL: provider.url,
    OPENAI_API_KEY: 'sk-test',
  }
  const run = (words: readonly string[]) => runCli([...words, '--json', '--parent-pipe'], { cwd: folder, env })
  const workers = [run(['pmo']), run(['worker', '--target', 'default'])]
  onTestFinished(async () => {
    for (const one of workers) one.signal('SIGKILL')
    await Promise.all(workers.map((one) => one.ended))
    weather.close()
    await provider.close()
  })
  for (const one of workers) await one.ready(60_000)

  const { agentTurnId } = await kernel.enqueue({ projectId: 'default', agentId: 'lead', instruction: 'Look after it.' })
  const question = await until(
    'the person is asked',
    async () => {
      const [row] = await db.query<{ tool_call_id: string }>({
        text: `select tool_call_id from state.turn_waiting_tools where tool_name = 'ask_person' and wait_status = 'waiting'`,
      })
      return row
    },
    90_000,
  )
  await kernel.report([
    { projectId: 'default', toolCallId: question.tool_call_id, status: 'success', result: { answer: 'yes' } },
  ])
  const turn = await until('the turn has ended', async () => {
    const [row] = await db.query<{ outcome: string; text: string; traceparent: string }>({
      text: `select i.outcome, c.content ->> 'text' as text, state.trace_of(i.agent_turn_id, i.traceparent) as traceparent from state.agent_inbox i
          join cards.cards c on c.card_id = i.deliverable_card_id where i.agent_turn_id = $1 and i.outcome is not null`,
      values: [agentTurnId],
    })
    return row
  })
  expect(turn).toMatchObject({ outcome: 'success', text: 'All is done.' })

  // The cards tell it in order: what was thought, called and answered, each answer once.
  const cards = await db.query<{ type: string; name: string | null; result: unknown }>({
    text: `select c.type, c.content ->> 'tool_name' as name, c.content -> 'result' as result from cards.box_cards b
        join cards.cards c on c.card_id = b.card_id
        join state.agent_state_head h on h.output_box_id = b.box_id where h.agent_id = 'lead' order by b.position`,
  })
  const called = cards.filter((card) => card.type === 'tool.call').map((card) => card.name)
  expect(called).toEqual(['north', 'east', 'west', 'notes__echo', 'fork_join', 'ask_person'])
  const answered = cards.filter((card) => card.type === 'tool.result').map((card) => card.name)
  expect(new Set(answered)).toEqual(new Set(called))
  expect(answered).toHaveLength(called.length)
  expect(cards.at(-1)?.type).toBe('task.deliverable')

  // Fifty results in task order, three of them failed, all in one trace.
  const traces = await db.query<{ outcome: string; trace: string; turns: number }>({
    text: `select i.outcome, split_part(i.traceparent, '-', 2) as trace, count(*)::int as turns from state.agent_inbox i
        where i.message_type = 'turn' and i.agent_id like 'hand-%' group by 1, 2 order by 1`,
  })
  const trace = turn.traceparent.split('-')[1]
  expect(traces).toEqual([
    { outcome: 'failed', trace, turns: 3 },
    { outcome: 'success', trace, turns: children - 3 },
  ])
  const joined = cards.find((card) => card.type === 'tool.result' && card.name === 'fork_join')?.result
  const resultText = JSON.stringify(joined)
  expect(resultText.match(/"status":"failed"/g)).toHaveLength(3)
  const steps = await db.query<{ steps: number }>({
    text: `select count(*)::int as steps from state.agent_steps where agent_turn_id = $1 and phase = 'model'`,
    values: [agentTurnId],
  })
  expect(steps).toEqual([{ steps: lines.length }])

  // The person got the question without its deadline.
  const trail = await readTrail(db, 'default', agentTurnId, 'test')
  expect(replay(trail!)).toMatchObject({ result: 'exact', difference: null })
})
