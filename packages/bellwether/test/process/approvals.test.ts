/**
 * `up` with all its parts is killed three times while calls of every kind wait for a person: an allowed call runs once, a denied one and
 * one whose deadline passes never.
 */
import { defined } from '@bellwether/base'
import { appendFileSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { delimiter, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { codingAgentPath } from '../support/agents/coding-agents.js'
import { ask, testProject, type Facts } from '../support/folder.js'
import { fakeMcp } from '../support/process.js'
import { listen } from '../support/servers/listen.js'
import { until } from '../support/until.js'

const p = '/api/v1/projects/default'
const decisions = ['allowed', 'denied'] as const
/** Its deadline passes while `up` is killed. */
const soon = 3

/** Agents whose turn is one call of this tool, whose arguments say which agent called it. */
const toolKinds: Readonly<Record<string, { readonly tool: string; readonly args: (agent: string) => object }>> = {
  http: { tool: 'deploy', args: (who) => ({ who }) },
  mcp: { tool: 'fake__count', args: (who) => ({ file: 'ran.txt', sign: who }) },
  function: { tool: 'publish', args: (who) => ({ who }) },
  delegate: { tool: 'delegate', args: (who) => ({ agent: 'child', instruction: `stand-in: run echo ${who}` }) },
}
const moduleOf = (agents: Readonly<Record<string, { readonly tool: string; readonly args: object }>>) => `
import { appendFileSync } from 'node:fs'
const calls = ${JSON.stringify(agents)}
const caller = ({ turn, results, newId }) => {
  const { tool, args } = calls[turn.agentId]
  const [result] = results
  if (result === undefined) return { suspend: { calls: [{ toolCallId: newId(), toolName: tool, args }] } }
  return { deliver: { text: result.error?.code ?? result.status }, status: result.status === 'success' ? 'success' : 'failed' }
}
export default Object.fromEntries(Object.keys(calls).map((agent) => [agent, caller]))
export const tools = [{
  name: 'publish', description: 'publishes', approve: 'ask',
  parameters: { type: 'object', required: ['who'], properties: { who: { type: 'string' } } },
  run: async ({ who }) => appendFileSync('ran.txt', who + '\\n'),
}]
`
/** A program that asks through its socket. */
const asking = (who: string) => `
import { createConnection } from 'node:net'
import { createInterface } from 'node:readline'
import { appendFileSync } from 'node:fs'
const { BELLWETHER_APPROVALS: path, BELLWETHER_APPROVALS_TOKEN: token } = process.env
const socket = createConnection(path, () => socket.write(JSON.stringify({ token, tool_name: 'own', input: { who: '${who}' } }) + '\\n'))
createInterface({ input: socket }).once('line', (line) => {
  const isAllowed = JSON.parse(line).behavior === 'allow'
  if (isAllowed) appendFileSync('ran.txt', '${who}\\n')
  process.exit(isAllowed ? 0 : 1)
})
`

it('up is killed three times while calls of every kind wait: an allowed call runs once, a denied or late one never, a second decision fails', async () => {
  const project = await testProject()
  const write = (name: string, text: string) => writeFile(join(project.folder, name), text)
  const ran = () => readFileSync(join(project.folder, 'ran.txt'), 'utf8').trim().split('\n')
  await write('ran.txt', 'start\n')
  const service = createServer((request, response) => {
    request.setEncoding('utf8').on('data', (body: string) => {
      // Appends, because other calls write at the same time.
      appendFileSync(join(project.folder, 'ran.txt'), `${(JSON.parse(body) as { who: string }).who}\n`)
      response.end('{}')
    })
  })
  const port = await listen(service)
  onTestFinished(() => void service.close())

  const calls: Record<string, { tool: string; args: object }> = {}
  for (const [kind, { tool, args }] of Object.entries(toolKinds))
    for (const decision of decisions) calls[`${kind}-${decision}`] = { tool, args: args(`${kind}-${decision}`) }
  calls['http-late'] = { tool: 'deploy_soon', args: { who: 'http-late' } }
  await write('agents.mjs', moduleOf(calls))
  const tool = (seconds?: number) => ({
    ...{ description: 'Deploys.', url: `http://127.0.0.1:${port}/`, method: 'POST', allow_private: true },
    parameters: { type: 'object', properties: { who: { type: 'string' } } },
    ...{ approve: 'ask', ...defined({ approve_within_seconds: seconds }) },
  })
  await write('tools.json', JSON.stringify({ tools: { deploy: tool(), deploy_soon: tool(soon) } }))
  const mcp = { command: process.execPath, args: [fakeMcp, 'stdio'], approve: ['count'] }
  await write('mcp.json', JSON.stringify({ mcpServers: { fake: mcp } }))
  const programs: Record<string, string> = { child: 'command: [echo, ok]' }
  for (const agent of Object.keys(calls)) programs[agent] = 'executor: function'
  for (const decision of [...decisions, 'late']) {
    const [claude, own] = [`claude-${decision}`, `own-${decision}`]
    const within = decision === 'late' ? `\napprove_within_seconds: ${soon}` : ''
    await write(`${own}.mjs`, asking(own))
    programs[own] = `approve: ask\ncommand: [node, ${own}.mjs]${within}`
    programs[claude] = `approve: ask\npreset: claude${within}`
  }
  for (const [name, front] of Object.entries(programs))
    await write(`agents/${name}.md`, `---\n${front}\n---\nstand-in: run echo ${name} >> ran.txt\n`)

  const options = {
    env: {
      PATH: `${codingAgentPath}${delimiter}${process.env['PATH']}`,
      BELLWETHER__WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '5',
      BELLWETHER__WORKER__BEAT_SECONDS: '0.5',
      BELLWETHER__WORKER__MAX_DEATHS: '50',
    },
  }
  const start = () => project.up(['--agents', 'agents.mjs'], options)
  let { cli, facts } = await start()
  const approve = { method: 'PUT', body: { options: { approve: 'ask' } } }
  expect((await ask(facts, `${p}/tools/delegate`, approve)).status).toBeLessThan(300)
  const agents = Object.keys(programs).filter((agent) => agent !== 'child')
  const run = (agent: string) =>
    ask(facts, `${p}/agents/${agent}/turns`, { method: 'POST', body: { instruction: 'do it' } })
  for (const agent of agents) expect((await run(agent)).status).toBe(202)
  const decided = agents.filter((agent) => !agent.endsWith('late'))
  const waiting = () =>
    until('every call that is to be decided waits', async () => {
      const found = await requests(facts)
      const ids = decided.map((agent) => [agent, found.find((one) => one.agent_id === agent)?.approval_id] as const)
      return ids.every(([, id]) => id !== undefined) ? Object.fromEntries(ids) : undefined
    })
  const before = await waiting()
  for (let restart = 0; restart < 3; restart += 1) {
    cli.signal('SIGKILL')
    await cli.ended
    ;({ cli, facts } = await start())
  }
  expect(await waiting()).toEqual(before)
  expect(ran()).toEqual(['start'])

  const decide = (agent: string) => {
    const body = agent.endsWith('allowed') ? { decision: 'allow', for: 'once' } : { decision: 'deny', reason: 'never' }
    return ask(facts, `${p}/approvals/${before[agent]}/decision`, { method: 'POST', body })
  }
  // By the command line, as the documentation says.
  const typed = ['function-allowed', 'http-denied']
  const granting = ['approvals', 'allow', before['function-allowed']!, '--for', 'agent', '--any', 'who']
  expect((await project.run(...granting)).answer).toMatchObject({ status: 'allowed' })
  const denying = await project.run('approvals', 'deny', before['http-denied']!, '--reason', 'never')
  expect(denying.answer).toMatchObject({ status: 'denied' })
  expect(await project.run('approvals', 'allow', before['http-denied']!)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/was denied by .* at \d{4}-\d\d-\d\dT[\d:.]+Z\. Nothing changed \[already_decided\]/),
  })
  const { grants } = (await project.run('approvals', 'grants')).answer as { grants: { grant_id: string }[] }
  expect(grants).toHaveLength(1)
  expect((await project.run('approvals', 'revoke', grants[0]!.grant_id)).code).toBe(0)
  // Over HTTP, everyone decides twice at the same time.
  for (const agent of decided.filter((one) => !typed.includes(one))) {
    const answers = await Promise.all([decide(agent), decide(agent)])
    expect(
      answers.map(({ status }) => status).toSorted((a, b) => a - b),
      agent,
    ).toEqual([200, 409])
    expect(answers.find(({ status }) => status === 409)?.body).toMatchObject({ code: 'already_decided' })
  }
  const ended = await until('all turns have ended', async () => {
    const mine = (await turnsOf(facts)).filter(({ agent_id: agent }) => agents.includes(agent))
    return mine.every((one) => one.outcome !== null) ? mine : undefined
  })
  expect(ended).toHaveLength(agents.length)
  const allowed = agents.filter((agent) => agent.endsWith('allowed'))
  expect(ran().slice(1).toSorted()).toEqual(allowed.filter((agent) => !agent.startsWith('delegate')).toSorted())
  const outcomes = Object.fromEntries(ended.map((one) => [one.agent_id, one.outcome]))
  for (const agent of allowed) expect(outcomes[agent], agent).toBe('success')
  // Claude’s stand-in says that it needs the permission, and ends well.
  for (const agent of agents.filter((one) => /^(?!claude).*(?:denied|late)$/.test(one)))
    expect(outcomes[agent], agent).toBe('failed')
  const children = (await turnsOf(facts)).filter(({ agent_id: agent }) => agent === 'child')
  expect(children).toHaveLength(1)
})

interface Waiting {
  readonly approval_id: string
  readonly agent_id: string
}
const requests = async (facts: Facts) =>
  ((await ask(facts, `${p}/approvals?limit=100`)).body as { approvals: readonly Waiting[] }).approvals
interface Turn {
  readonly agent_id: string
  readonly outcome: string | null
}
const turnsOf = async (facts: Facts) =>
  ((await ask(facts, `${p}/turns?limit=100`)).body as { turns: readonly Turn[] }).turns
