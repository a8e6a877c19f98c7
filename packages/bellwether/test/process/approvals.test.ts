/** `up` with all its parts is killed three times while calls wait for a person: the allowed ones run once, the denied one never. */
import { existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { delimiter, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { codingAgentPath } from '../support/agents/coding-agents.js'
import { ask, testProject } from '../support/folder.js'
import { until } from '../support/until.js'

it('up is killed three times while calls wait: an allowed call runs once, a denied one never, a second decision fails', async () => {
  const deployed: string[] = []
  const service = createServer((request, response) => {
    deployed.push(String(request.url))
    response.end('{}')
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void service.close())
  await new Promise((resolve) => service.once('listening', resolve))
  const { port } = service.address() as AddressInfo
  const project = await testProject()
  const tool = (path: string) => ({
    description: 'Deploys.',
    url: `http://127.0.0.1:${port}/${path}`,
    method: 'POST',
    allow_private: true,
    approve: 'ask',
  })
  const tools = { deploy: tool('deploy'), destroy: tool('destroy') }
  await writeFile(join(project.folder, 'tools.json'), JSON.stringify({ tools }))
  const agent = '---\npreset: claude\napprove: ask\n---\nstand-in: run echo ran >> ran.txt\n'
  await writeFile(join(project.folder, 'agents', 'coder.md'), agent)
  for (const name of ['first', 'second'])
    await writeFile(join(project.folder, 'agents', `${name}.md`), '---\ncommand: "true"\n---\n')
  const options = {
    env: {
      PATH: `${codingAgentPath}${delimiter}${process.env['PATH']}`,
      BELLWETHER__WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '5',
      BELLWETHER__WORKER__BEAT_SECONDS: '0.5',
      BELLWETHER__WORKER__MAX_DEATHS: '50',
    },
  }
  let { cli, facts } = await project.up([], options)
  const p = '/api/v1/projects/default'
  const started = await ask(facts, `${p}/agents/coder/turns`, { method: 'POST', body: { instruction: 'do it' } })
  const coder = String(started.body['agent_turn_id'])
  for (const [agentId, toolName] of [
    ['first', 'deploy'],
    ['second', 'destroy'],
  ])
    await until(`${toolName} is called`, async () => {
      const body = { action_id: `a-${toolName}`, agent_id: agentId, tool_name: toolName, args: {} }
      return (await ask(facts, `${p}/ui-actions`, { method: 'POST', body })).status === 202 || undefined
    })
  const waiting = () =>
    until('three calls wait', async () => {
      const { answer } = await project.run('approvals')
      const found = answer['approvals'] as { approval_id: string; tool_name: string }[] | undefined
      return found?.length === 3 ? found : undefined
    })
  const before = await waiting()
  for (let restart = 0; restart < 3; restart += 1) {
    cli.signal('SIGKILL')
    await cli.ended
    ;({ cli, facts } = await project.up([], options))
  }
  expect((await waiting()).map((one) => one.approval_id)).toEqual(before.map((one) => one.approval_id))
  expect(deployed).toEqual([])
  const idOf = (name: string) => before.find((one) => one.tool_name === name)!.approval_id
  expect((await project.run('approvals', 'allow', idOf('deploy'))).answer).toMatchObject({ status: 'allowed' })
  const denied = await project.run('approvals', 'deny', idOf('destroy'), '--reason', 'never')
  expect(denied.answer).toMatchObject({ status: 'denied' })
  const again = await project.run('approvals', 'allow', idOf('destroy'))
  expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('already_decided') })
  const granted = await project.run('approvals', 'allow', idOf('Bash'), '--for', 'agent')
  expect(granted.answer).toMatchObject({ status: 'allowed' })
  const outcomes = await until('all turns have ended', async () => {
    const { turns } = (await ask(facts, `${p}/turns`)).body as { turns: { agent_id: string; outcome: string | null }[] }
    const ended = turns.filter((one) => one.outcome !== null)
    return ended.length === 3 ? Object.fromEntries(ended.map((one) => [one.agent_id, one.outcome])) : undefined
  })
  expect(outcomes).toEqual({ coder: 'success', first: 'success', second: 'failed' })
  expect(deployed).toEqual(['/deploy'])
  expect(readFileSync(join(project.folder, 'ran.txt'), 'utf8')).toBe('ran\n')
  // The grant covers the next turn of the agent, until it is revoked.
  const { grants } = (await project.run('approvals', 'grants')).answer as { grants: { grant_id: string }[] }
  expect(grants).toHaveLength(1)
  expect((await project.run('approvals', 'revoke', grants[0]!.grant_id)).code).toBe(0)
  expect(existsSync(join(project.folder, 'ran.txt'))).toBe(true)
  expect(coder).not.toBe('')
})
