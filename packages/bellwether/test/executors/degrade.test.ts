/** Degrade actions (H7.7) in the requests that a model's provider receives, and in the program that a command executor starts. */
import { chmod, mkdir } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { DegradeAction } from '@bellwether/protocol'
import type { ModelSpec } from '../../src/worker/executors/model/spec.js'
import { openFakeProvider, type FakeProvider, type FakeRequest } from '../support/agents/fake-openai.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { openCommandSetup, type CommandSetup } from './command-setup.js'
import { openModelSetup, toolboxOf, type ModelSetup } from './model/model-setup.js'

describe('a model', () => {
  const t = kernelPerFile({ time: 'real' })
  let provider: FakeProvider
  let b: ModelSetup
  const plain = toolboxOf(['note', 'big', 'huge'])
  beforeAll(async () => {
    provider = await openFakeProvider()
    b = await openModelSetup({
      t,
      env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'k' },
      tools: { note: () => 'noted', big: () => 'x'.repeat(9_000) },
      toolbox: {
        ...plain,
        // The declaration of this tool alone takes 2,000 tokens.
        offers: plain.offers.map((one) => (one.name === 'huge' ? { ...one, description: 'd'.repeat(6_000) } : one)),
      },
    })
  })
  beforeEach(() => void (provider.requests.length = 0))
  afterAll(async () => {
    await b.close()
    await provider.close()
  })

  const answer = { text: 'done', usage: { input: 10, output: 5 } }
  const model = {
    model: 'openai/large',
    cheaper_model: 'openai/small',
    prices: { input_per_million: 100, output_per_million: 100 },
    cheaper_prices: { input_per_million: 1, output_per_million: 1 },
    essential_tools: ['note'],
    max_output_tokens: 500,
  } satisfies Partial<ModelSpec>
  const tools = ({ body }: FakeRequest) =>
    (body.tools as { function: { name: string } }[]).map((one) => one.function.name)
  const textOf = ({ body }: FakeRequest) => JSON.stringify(body.messages)
  const withSequence = (...degrade: DegradeAction[]) => ({ ...model, budget: { degrade } })

  it('[H7.7] reduced_context sends less of the conversation and asks for a shorter answer', async () => {
    provider.behave(({ body }, number) => {
      // About what the executor estimates, so that its estimate stays.
      const usage = { input: Math.ceil(JSON.stringify(body).length / 3), output: 5 }
      return number < 3 ? { text: `step ${number}`, calls: [{ name: 'big', args: {} }], usage } : { ...answer, usage }
    })
    const ended = await b.run({ ...withSequence('reduced_context'), prices: undefined }, { budget: { tokens: 11_000 } })
    expect(ended).toMatchObject({ outcome: 'success', text: 'done' })
    const [before, last] = provider.requests.slice(-2)
    expect(textOf(last!).length).toBeLessThan(textOf(before!).length)
    expect(last!.body.max_tokens).toBeLessThan(500)
    const { degraded } = ended.steps.at(-1)!.metadata as { degraded: Record<string, number>[] }
    expect(degraded).toMatchObject([{ action: 'reduced_context', max_output_tokens: last!.body.max_tokens }])
    expect(degraded[0]!['prompt_tokens']).toBeLessThan(degraded[0]!['instead_of']!)
    expect(ended.steps[0]!.metadata).not.toHaveProperty('degraded')
  })

  it('[H7.7] cheaper_model sends the call that the money does not cover to the cheaper model, at its price', async () => {
    provider.behave(() => answer)
    const budget = { costMicros: 4_000 }
    const ended = await b.run(withSequence('cheaper_model'), { budget })
    expect(ended).toMatchObject({ outcome: 'success', text: 'done' })
    expect(provider.requests.map(({ body }) => body.model)).toEqual(['small'])
    expect(ended.steps[0]!.metadata).toMatchObject({
      model: 'openai/small',
      cost_micros: 15,
      degraded: [{ action: 'cheaper_model', model: 'openai/small', instead_of: 'openai/large' }],
    })
  })

  it('[H7.7] fewer_tools offers only the essential tools in the call that the tokens do not cover', async () => {
    provider.behave(() => answer)
    const ended = await b.run(withSequence('fewer_tools'), { budget: { tokens: 1_500 } })
    expect(ended).toMatchObject({ outcome: 'success', text: 'done' })
    expect(provider.requests.map(tools)).toEqual([['note']])
    expect(ended.steps[0]!.metadata).toMatchObject({
      model: 'openai/large',
      degraded: [{ action: 'fewer_tools', without: ['big', 'huge'] }],
    })
  })

  it('[H7.7] the actions add up in their order until a call fits', async () => {
    provider.behave(() => answer)
    const ended = await b.run(withSequence('cheaper_model', 'fewer_tools', 'stop_run'), {
      budget: { costMicros: 4_000, tokens: 1_500 },
    })
    expect(ended.outcome).toBe('success')
    expect(provider.requests.map((one) => [one.body.model, ...tools(one)])).toEqual([['small', 'note']])
    const { degraded } = ended.steps[0]!.metadata as { degraded: { action: string }[] }
    expect(degraded.map(({ action }) => action)).toEqual(['cheaper_model', 'fewer_tools'])
  })

  it.each(['manual_handoff', 'stop_run'] as const)(
    '[H7.7] %s ends the turn before a call that the budget does not cover, and later actions do not apply',
    async (action) => {
      provider.behave((_request, number) => ({
        text: `found ${number}`,
        calls: [{ name: 'note', args: {} }],
        usage: { input: 2_100, output: 5 },
      }))
      const ended = await b.run(withSequence(action, 'fewer_tools'), { budget: { tokens: 2_700 } })
      expect(ended).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
      expect(provider.requests.length).toBeGreaterThan(0)
      expect(provider.requests.flatMap(tools)).toContain('huge')
      expect(ended.steps.at(-1)).toMatchObject({ error: 'budget_exceeded', metadata: { degraded: [{ action }] } })
      expect(ended.text).toContain('found 1')
      expect(ended.text.includes('Handed over')).toBe(action === 'manual_handoff')
      expect(ended.text.includes('- step 1: note {} → success')).toBe(action === 'manual_handoff')
    },
  )

  it('[H7.7] a turn without a sequence in its agent file uses that of its task', async () => {
    provider.behave(() => answer)
    const more = { budget: { tokens: 1_500 } }
    const payload = { degrade_policy: ['fewer_tools', 'stop_run', 'explode', 7] }
    expect((await b.run(model, { ...more, payload })).outcome).toBe('success')
    expect(provider.requests.map(tools)).toEqual([['note']])
    expect((await b.run(withSequence('stop_run'), { ...more, payload })).error).toBe('budget_exceeded')
    expect(provider.requests).toHaveLength(1)
  })

  it('[H7.7] a degraded run starts with the cheaper model, the essential tools, and without cards of earlier turns', async () => {
    provider.behave(() => ({ ...answer, text: 'remember the teapot' }))
    const agentId = 'degraded'
    const memory = 'box'
    await b.run(model, { agentId, memory })
    const payload = { degrade: ['reduced_context', 'cheaper_model', 'fewer_tools'] }
    const ended = await b.run(model, { agentId, memory, payload })
    await b.run(model, { agentId, memory })
    const [, second, third] = provider.requests
    expect([second!.body.model, third!.body.model]).toEqual(['small', 'large'])
    expect([tools(second!), tools(third!)]).toEqual([['note'], ['note', 'big', 'huge']])
    expect([textOf(second!), textOf(third!)].map((text) => text.includes('teapot'))).toEqual([false, true])
    expect(ended.steps[0]!.metadata).toMatchObject({
      degraded: [
        { action: 'cheaper_model', model: 'openai/small' },
        { action: 'fewer_tools', without: ['big', 'huge'] },
        { action: 'reduced_context', without_cards: expect.any(Number) as number },
      ],
    })
  })
})

describe('a command', () => {
  let b: CommandSetup
  const path = process.env['PATH']
  beforeAll(async () => {
    b = await openCommandSetup()
    const programs = join(b.folder, 'bin')
    await mkdir(programs)
    // Prints its arguments, the actions and its prompt, in the form of the preset.
    await b.write('bin/aider', '#!/bin/sh\necho "$@ [$BELLWETHER_DEGRADE]"; cat\n')
    await chmod(join(programs, 'aider'), 0o755)
    process.env['PATH'] = `${programs}${delimiter}${path}`
  })
  afterAll(async () => {
    process.env['PATH'] = path
    await b.close()
  })

  it('[H7.7] a degraded run gets the cheaper model of its preset, the actions in its environment, and only the task', async () => {
    const spec = { preset: 'aider', model: 'large', cheaper_model: 'small', instructions: 'Be brief.' } as const
    const first = await b.run(spec, { memory: 'box' })
    expect(first.text).toMatch(/--model large --chat-history-file \S+ \[\]\n/)
    expect(first.steps[0]!.metadata).not.toHaveProperty('degraded')
    const { agent_id: agentId } = first
    const runWith = async (...degrade: DegradeAction[]) => {
      const turn = { projectId: project, agentId, instruction: 'go on', payload: { degrade } }
      const { agentTurnId } = await b.t.kernel.enqueue(turn)
      await b.worker.step()
      return b.ended(agentTurnId)
    }
    const memory = '# Earlier turns'
    const degraded = await runWith('reduced_context', 'cheaper_model', 'fewer_tools')
    expect(degraded.text).toMatch(/--model small .*\[reduced_context,cheaper_model,fewer_tools\]\n/)
    expect(degraded.text).toContain('go on')
    expect(degraded.text).not.toContain(memory)
    expect(degraded.steps[0]!.metadata).toMatchObject({
      degraded: [
        { action: 'reduced_context', without_cards: expect.any(Number) as number },
        { action: 'cheaper_model', model: 'small', instead_of: 'large' },
        { action: 'fewer_tools', variable: 'BELLWETHER_DEGRADE' },
      ],
    })
    const next = await runWith()
    expect(next.text).toMatch(/--model large --chat-history-file \S+ \[\]\n/)
    expect(next.text).toContain(memory)
  })
})
