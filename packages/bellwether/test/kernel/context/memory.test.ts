/** What a turn knows of earlier turns (T9.3), on a real database: the setting of its agent, the session of its caller, bounds and size. */
import { expect, it } from 'vitest'
import { readTurnDetail } from '../../../src/kernel/reads/turn-detail.js'
import type { Card } from '../../../src/kernel/verbs/cards.js'
import type { NewTurn } from '../../../src/kernel/verbs/turn/enqueue.js'
import { agentFunction, type Agent } from '../../../src/worker/agent.js'
import { hydrate, type Hydrated } from '../../../src/worker/hydrate.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'
import { deliverTurn, grepCalls, reportSuccess } from '../../support/kernel-turns.js'
import { runTurns, testWorker } from '../../support/worker.js'

const t = kernelPerFile()

const put = (agentId: string, memory: 'none' | 'session' | 'box') =>
  t.kernel.putAgents([{ projectId: project, agentId, workerTarget: target, memory }])
const textsOf = (cards: readonly Card[]) => cards.map((card) => (card.content as { text?: string }).text ?? card.type)

async function begin(agentId: string, more: Partial<NewTurn> = {}) {
  await t.kernel.enqueue({ projectId: project, agentId, instruction: 'do it', ...more })
  return (await t.claim()).find((one) => one.agentId === agentId)!
}

async function known(turn: Parameters<typeof hydrate>[1], bytesMax?: number): Promise<Hydrated> {
  const read = await hydrate(t.db, turn, bytesMax)
  if (read === 'stale') throw new Error('the fence is lost')
  return read
}

/** A turn that thinks, answers and ends. */
async function turnOf(agentId: string, instruction: string, sessionId?: string): Promise<void> {
  const turn = await begin(agentId, { instruction, ...(sessionId !== undefined && { sessionId }) })
  await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text: `hm ${instruction}` } }] })
  await t.kernel.deliver({ ...turn, status: 'success', content: { text: `done ${instruction}` } })
}

const sizeOf = async (agentTurnId: string) => (await readTurnDetail(t.db, agentTurnId)).context_size

it('[T9.3] a function agent gets the earlier turns that its memory allows, in its first call and after a wait', async () => {
  const seen: Record<string, readonly string[]> = {}
  const run: Agent = async (turn) => {
    const { memory, output } = await turn.hydrate()
    const { agentId } = turn.turn
    seen[`${agentId} ${turn.instruction} ${turn.results.length}`] = textsOf(memory)
    if (turn.instruction !== 'three') return `done ${turn.instruction}`
    if (turn.results.length === 0) return { suspend: { calls: grepCalls(`${agentId}-1`) } }
    expect(output.map((card) => card.type)).toEqual(['tool.call', 'tool.result'])
    return 'done three'
  }
  const worker = testWorker(t, () => agentFunction(run))
  for (const memory of ['none', 'session', 'box'] as const) {
    await put(memory, memory)
    for (const [instruction, sessionId] of [
      ['one', 'a'],
      ['two', 'b'],
      ['three', 'a'],
    ] as const) {
      await t.kernel.enqueue({ projectId: project, agentId: memory, instruction, sessionId })
      await runTurns(worker)
    }
    await reportSuccess(t, `${memory}-1`)
    await runTurns(worker)
  }
  const expected = { none: [], session: ['one', 'done one'], box: ['done one', 'done two'] }
  for (const [memory, cards] of Object.entries(expected))
    expect([seen[`${memory} three 0`], seen[`${memory} three 1`]]).toEqual([cards, cards])
})

it('[T9.3] every card that a turn records names the turn, whatever its metadata says', async () => {
  await put('names', 'none')
  const first = await begin('names')
  const forged = {
    type: 'agent.thought' as const,
    content: { text: 'mine' },
    metadata: { agent_turn_id: 'x', more: 1 },
  }
  await t.kernel.record({ ...first, cards: [forged] })
  const { output } = await known(first)
  expect(output[0]!.metadata).toEqual({ agent_turn_id: first.agentTurnId, more: 1 })
  await t.kernel.swapBox({ ...first, cardIds: [output[0]!.card_id], cards: [forged] })
  const swapped = (await known(first)).output
  expect(swapped.map((card) => card.metadata)).toEqual([output[0]!.metadata, output[0]!.metadata])
  await deliverTurn(t, first)
  const second = await begin('names')
  expect(await known(second)).toMatchObject({ memory: [], output: [] })
  await deliverTurn(t, second)
})

it('[T9.3] a turn keeps its own cards while queued turns of its agent are cancelled, and sees nothing of them', async () => {
  await put('queue', 'none')
  await turnOf('queue', 'before')
  const turn = await begin('queue')
  await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text: 'mine 1' } }] })
  for (const instruction of ['second', 'third']) {
    const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'queue', instruction })
    await t.kernel.stop({ projectId: project, agentTurnId })
  }
  await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text: 'mine 2' } }] })
  expect(textsOf((await known(turn)).output)).toEqual(['mine 1', 'mine 2'])
  await deliverTurn(t, turn)
})

it('[T9.3] memory is bounded in bytes and cards together with the turn’s own cards; the newest cards are read', async () => {
  const text = (at: number) => `${at}:`.padEnd(50_000, 'x')
  for (const memory of ['session', 'box'] as const) {
    const agentId = `bounded-${memory}`
    await put(agentId, memory)
    for (let at = 0; at < 5; at += 1) {
      const turn = await begin(agentId, { instruction: `ask ${at}`, sessionId: 's' })
      await t.kernel.deliver({ ...turn, status: 'success', content: { text: text(at) } })
    }
    const turn = await begin(agentId, { sessionId: 's' })
    const heads = (cards: readonly Card[]) => textsOf(cards).map((one) => one.slice(0, 6))
    const read = await known(turn, 170_000)
    expect(read.truncated).toEqual({ context: false, memory: true, output: false })
    expect(heads(read.memory)).toEqual(
      memory === 'box' ? ['2:xxxx', '3:xxxx', '4:xxxx'] : ['ask 2', '2:xxxx', 'ask 3', '3:xxxx', 'ask 4', '4:xxxx'],
    )
    await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text: text(9) } }] })
    expect(heads((await known(turn, 170_000)).memory)).toEqual(heads(read.memory).slice(memory === 'box' ? 1 : 2))
    // The size is that of the first read.
    const size = { memory, cards: 1, memory_cards: read.memory.length, memory_truncated: true }
    expect(await sizeOf(turn.agentTurnId)).toMatchObject(size)
    expect((await sizeOf(turn.agentTurnId))!.memory_bytes).toBeGreaterThan(150_000)
    await deliverTurn(t, turn)
  }
})

it('[T9.3] a session is that of one agent and contains only turns that ran; without a session id it is empty', async () => {
  for (const agentId of ['ann', 'ben']) await put(agentId, 'session')
  await turnOf('ann', 'one', 's')
  await turnOf('ben', 'other', 's')
  const turn = await begin('ann', { sessionId: 's' })
  const { agentTurnId } = await t.kernel.enqueue({
    projectId: project,
    agentId: 'ann',
    instruction: 'never runs',
    sessionId: 's',
  })
  await t.kernel.stop({ projectId: project, agentTurnId })
  expect(textsOf((await known(turn)).memory)).toEqual(['one', 'done one'])
  await deliverTurn(t, turn)
  const alone = await begin('ann')
  expect((await known(alone)).memory).toEqual([])
  expect(await sizeOf(alone.agentTurnId)).toMatchObject({ memory: 'session', memory_cards: 0, memory_bytes: 0 })
  await deliverTurn(t, alone)
})

it('[T9.3] the size of the context is known once a turn has started, and costs an agent without memory no row', async () => {
  await put('sized', 'none')
  await turnOf('sized', 'before')
  const running = await begin('sized', { instruction: 'x'.repeat(1_000) })
  await known(running)
  const { agentTurnId: queued } = await t.kernel.enqueue({ projectId: project, agentId: 'sized', instruction: 'later' })
  expect(await sizeOf(queued)).toBeNull()
  const size = await sizeOf(running.agentTurnId)
  expect(size).toMatchObject({ memory: 'none', cards: 1, memory_cards: 0, memory_bytes: 0, memory_truncated: false })
  expect(size!.bytes).toBeGreaterThan(1_000)
  expect(await t.all('select from state.turn_memories where agent_turn_id = $1', running.agentTurnId)).toEqual([])
})

it('[T9.3] a lost fence records no size', async () => {
  await put('lost', 'box')
  await turnOf('lost', 'before')
  const turn = await begin('lost')
  const stale = { ...turn, turnEpoch: turn.turnEpoch + 1 }
  expect(await hydrate(t.db, stale)).toBe('stale')
  expect(await t.all('select from state.turn_memories where agent_turn_id = $1', turn.agentTurnId)).toEqual([])
  expect(textsOf((await known(turn)).memory)).toEqual(['hm before', 'done before'])
  await deliverTurn(t, turn)
})

it('[T9.3] an agent has the memory of its own entry, else of its profile, else none', async () => {
  await t.kernel.putProfile({
    projectId: project,
    profileId: 'chatty',
    name: 'c',
    workerTarget: target,
    spec: { memory: 'session' },
  })
  await t.kernel.putProfile({
    projectId: project,
    profileId: 'odd',
    name: 'o',
    workerTarget: target,
    spec: { memory: 'all' },
  })
  const agent = { projectId: project, workerTarget: target }
  await t.kernel.putAgents([
    { ...agent, agentId: 'of-profile', profileId: 'chatty' },
    { ...agent, agentId: 'of-own', profileId: 'chatty', memory: 'box' },
    { ...agent, agentId: 'of-odd', profileId: 'odd' },
  ])
  const rows = await t.all<{ agent_id: string; memory: string }>(
    "select agent_id, memory from resource.project_agents where agent_id like 'of-%' order by agent_id",
  )
  expect(rows.map((row) => [row.agent_id, row.memory])).toEqual([
    ['of-odd', 'none'],
    ['of-own', 'box'],
    ['of-profile', 'session'],
  ])
  const wrong = { ...agent, agentId: 'wrong', memory: 'all' as 'box' }
  await expect(t.kernel.putAgents([wrong])).rejects.toThrow('"memory" must be one of none, session, box (got "all")')
})
