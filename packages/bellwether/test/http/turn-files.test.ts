/** Which files a turn changed, over HTTP: what deliverable, view and overlapping turns show, and how certain it is. */
import { expect, it } from 'vitest'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import { project } from '../support/kernel.js'
import { claimTurnOf, snapshotOf } from './full-server.js'
import { addAgent, addTurn, serverPerFile } from './test-server.js'

const server = serverPerFile()

const seconds = async () => {
  const { now } = await server.t.one<{ now: Date }>('select state.now() as now')
  return now.getTime() / 1_000
}

async function start(agentId: string): Promise<ClaimedTurn> {
  await addAgent(server, agentId)
  await addTurn(server, agentId)
  return claimTurnOf(server, agentId)
}

const end = (turn: ClaimedTurn, files: readonly string[] = []) =>
  server.kernel.deliver({ ...turn, status: 'success', content: { fields: [{ name: 'files', value: files }] } })

it('attributes a file to the only turn that ran when it changed, names overlapping turns, and confirms claims', async () => {
  const before = await seconds()
  const first = await start('ann')
  await server.t.advance(10)
  const alone = await seconds()
  await server.t.advance(10)
  const second = await start('bob')
  await server.t.advance(10)
  const shared = await seconds()
  await server.t.advance(10)
  await end(first, ['claimed.txt', 'old.txt', 'gone.txt'])
  await server.t.advance(10)
  const later = await seconds()
  await server.t.advance(10)
  await end(second)

  const row = (name: string, modified_time: number) => ({
    path: `/${name}`,
    file_name: name,
    size: 1,
    is_directory: false,
    modified_time,
    created_time: modified_time,
  })
  await snapshotOf(server, { agent_id: 'host', source_id: 's1', source_uri: '/mnt' }, [
    row('old.txt', before - 100),
    row('before.txt', before - 100),
    row('alone.txt', alone),
    row('shared.txt', shared),
    row('claimed.txt', shared),
    row('later.txt', later),
  ])
  const filesOf = async ({ agentTurnId }: ClaimedTurn) => {
    const { body } = await server.get(`/projects/${project}/turns/${agentTurnId}`)
    const files = body['files'] as { path: string; certainty: string; other_turns: string[] }[]
    return Object.fromEntries(files.map((file) => [file.path, [file.certainty, ...file.other_turns]]))
  }
  const [a, b] = [first.agentTurnId, second.agentTurnId]
  expect(await filesOf(first)).toEqual({
    '/claimed.txt': ['claimed_and_seen', b],
    '/old.txt': ['claimed'],
    'gone.txt': ['claimed'],
    '/alone.txt': ['only_turn'],
    '/shared.txt': ['several_turns', b],
  })
  expect(await filesOf(second)).toEqual({
    '/claimed.txt': ['several_turns', a],
    '/shared.txt': ['several_turns', a],
    '/later.txt': ['only_turn'],
  })
})
