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

async function sendRealtime(session: string, event: object): Promise<void> {
  const common = { event_schema: 'fs', table: 'files', fields: [], message_source: 'realtime' }
  const events = [{ ...common, ...event }]
  const body = { events, source_type: 'message', is_end: false }
  const { status } = await server.post(`/pipe/ingest/${session}/events`, body, { key: server.keys.sensor })
  expect(status).toBe(200)
}

// Run first: the view has the clock of the machine, and the last test advances the clock of the database beyond it.
it('lists a file that two turns changed after each other in both, as far as the view remembers', async () => {
  await server.t.advance(-100)
  const first = await start('first')
  await server.t.advance(10)
  const inFirst = await seconds()
  await server.t.advance(10)
  await end(first)
  await server.t.advance(10)
  const second = await start('second')
  await server.t.advance(10)
  const inSecond = await seconds()
  await server.t.advance(10)
  await end(second)
  await server.t.advance(50)

  const session = await snapshotOf(server, { agent_id: 'host', source_id: 'twice', source_uri: '/mnt' }, [])
  const update = (path: string, at: number, modified_time: number) =>
    sendRealtime(session, {
      event_type: 'update',
      rows: [{ path, file_name: path.slice(1), size: 1, is_directory: false, modified_time, created_time: 1 }],
      index: Math.round(at * 1_000),
    })
  await update('/after.txt', Date.now() / 1_000, Date.now() / 1_000)
  await update('/edited.txt', inFirst, inFirst)
  await update('/edited.txt', inSecond, inSecond)
  await update('/copied.txt', inFirst, 5)
  const filesOf = async ({ agentTurnId }: ClaimedTurn) => {
    const { body } = await server.get(`/projects/${project}/turns/${agentTurnId}`)
    return (body['files'] as { path: string; certainty: string }[])
      .map(({ path, certainty }) => `${path} ${certainty}`)
      .toSorted()
  }
  expect(await filesOf(first)).toEqual(['/copied.txt only_turn', '/edited.txt only_turn'])
  expect(await filesOf(second)).toEqual(['/edited.txt only_turn'])
})

it('lists files that existed before the turn and were deleted in it, and confirms a claimed deletion', async () => {
  const turn = await start('remover')
  const startedAt = await seconds()
  const row = (path: string, createdTime: number) => ({
    path,
    file_name: path.slice(1),
    size: 1,
    is_directory: false,
    modified_time: startedAt - 100,
    created_time: createdTime,
  })
  const rows = ['/unwanted.txt', '/replaced.txt', '/stays.txt'].map((path) => row(path, startedAt - 100))
  const client = { agent_id: 'host', source_id: 'deletions', source_uri: '/mnt' }
  const session = await snapshotOf(server, client, [...rows, row('/temporary.txt', startedAt + 1)])
  const deleted = [rows[0], rows[1], row('/temporary.txt', startedAt + 1)]
  await sendRealtime(session, { event_type: 'delete', rows: deleted, index: 1 })
  await server.t.advance(10)
  await end(turn, ['replaced.txt', 'never-existed.txt'])
  const { body } = await server.get(`/projects/${project}/turns/${turn.agentTurnId}`)
  const files = body['files'] as { path: string; how: string; certainty: string; found: boolean }[]
  expect(files.map(({ path, how, certainty, found }) => [path, how, certainty, found])).toEqual([
    ['/replaced.txt', 'claimed', 'claimed_and_seen', false],
    ['never-existed.txt', 'claimed', 'claimed', false],
    ['/unwanted.txt', 'deleted', 'only_turn', false],
  ])
})

it('attributes no file to a turn that only waited for a person when it changed, unless one of its tools ran', async () => {
  const call = (toolCallId: string, hostedBy?: string) => ({
    toolCallId,
    toolName: hostedBy === undefined ? 'grep' : 'ask_person',
    args: {},
    timeoutSeconds: 10_000,
    ...(hostedBy && { hostedBy }),
  })
  const moment = async () => {
    await server.t.advance(10)
    const at = await seconds()
    await server.t.advance(10)
    return at
  }
  const waiting = await start('waits')
  const before = await moment()
  await server.kernel.suspend({ ...waiting, stepId: 'waits-1', calls: [call('w-ask', 'people')] }, 10_000)
  const working = await start('works')
  const during = await moment()
  await end(working)
  const byHand = await moment()
  const answered = (toolCallId: string) => ({ projectId: project, toolCallId, status: 'success' as const, result: 'x' })
  await server.kernel.report([answered('w-ask')])
  const resumed = await claimTurnOf(server, 'waits')
  await server.kernel.resume(resumed, 'w')
  const after = await moment()
  await server.kernel.suspend(
    { ...resumed, stepId: 'waits-2', calls: [call('w-ask-2', 'people'), call('w-grep')] },
    10_000,
  )
  const byTool = await moment()
  await server.kernel.report([answered('w-grep'), answered('w-ask-2')])
  await end(await claimTurnOf(server, 'waits'))

  const row = ([name, modified_time]: readonly [string, number]) => ({
    path: `/${name}`,
    file_name: name,
    size: 1,
    is_directory: false,
    modified_time,
    created_time: modified_time,
  })
  const moments = Object.entries({ before, during, byHand, after, byTool })
  await snapshotOf(server, { agent_id: 'host', source_id: 'waits', source_uri: '/mnt' }, moments.map(row))
  const filesOf = async ({ agentTurnId }: ClaimedTurn) => {
    const { body } = await server.get(`/projects/${project}/turns/${agentTurnId}`)
    return (body['files'] as { path: string; certainty: string }[]).map(({ path, certainty }) => `${path} ${certainty}`)
  }
  expect(await filesOf(working)).toEqual(['/during only_turn'])
  expect((await filesOf(waiting)).toSorted()).toEqual(['/after only_turn', '/before only_turn', '/byTool only_turn'])
})

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
