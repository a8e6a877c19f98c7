/** Who may take a task: the agents and capabilities of the runtime policy, on the real fold with a fake kernel. */
import { expect, it } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import { readyRules } from '../../../src/board/dispatch/dispatcher.js'
import { readiness } from '../../../src/board/tasks/ready.js'
import { boardOf, created, dispatcherOf, makeWorld, noCaches, put, never } from '../../support/board/dispatcher.js'

it('[H9.5] the agents and capabilities of the runtime policy decide who takes a task, and who retries it', async () => {
  const runtime = {
    agents: [
      { id: 'Writer', capabilities: ['docs'] },
      { id: 'debugger', capabilities: ['code', 'gpu'] },
    ],
    explicit: { maxConcurrentSpawns: null },
  }
  const world = makeWorld({ runtime })
  await put(
    world,
    created('named', { agent: 'debugger' }),
    created('stranger', { agent: 'coder' }),
    created('unable', { agent: 'writer', capabilities: ['GPU'] }),
    created('by-role', { role: 'docs' }),
    created('by-name', { role: 'writer' }),
    created('any', { capabilities: ['gpu', 'code'] }),
    created('none', { capabilities: ['docs', 'gpu'] }),
    created('fallback'),
  )
  const dispatcher = dispatcherOf(world, { settings: { ...dispatcherOf(world).settings, maxConcurrentSpawns: 99 } })
  await autopilotStep(dispatcher, noCaches)
  const taken = Object.fromEntries(
    [...world.kernel.turns.values()].map(({ request }) => [request.taskId, request.agent]),
  )
  expect(taken).toEqual({
    named: 'debugger',
    'by-role': 'Writer',
    'by-name': 'writer',
    any: 'debugger',
    // "coder", the first agent of the settings, is not listed.
    fallback: 'Writer',
  })
  const rules = readyRules(dispatcher, world.policies)
  const state = await boardOf(world).sync()
  const waits = (id: string) => readiness(state.tasks.get(id)!, state, world.clock.wallMs(), rules)
  expect(waits('stranger')).toMatchObject({ code: 'no_agent', why: expect.stringContaining('"coder" is not among') })
  expect(waits('unable')).toMatchObject({ code: 'no_agent', why: expect.stringContaining('for "writer": GPU') })
  expect(waits('none')).toMatchObject({ code: 'no_agent', why: expect.stringContaining('docs, gpu') })
  await expect(dispatch(dispatcher, 'stranger', never)).rejects.toMatchObject({ code: 'not_ready' })

  // The chain is coder, debugger, invest-analyst: the first and the last are not listed.
  for (const [key, { request }] of world.kernel.turns)
    if (['by-name', 'named'].includes(request.taskId)) world.kernel.end(key, { outcome: 'failed', error: 'no' })
  await autopilotStep(dispatcher, noCaches)
  const next = (id: string) =>
    boardOf(world)
      .sync()
      .then((now) => now.tasks.get(id)!.fields['spawn'])
  expect(await next('by-name')).toMatchObject({ nextAssignee: 'debugger', action: 'retry' })
  expect(await next('named')).toMatchObject({ nextAssignee: 'human', action: 'human' })
})

it('[H9.5] a task that needs a capability waits while the runtime policy lists no agents', async () => {
  const world = makeWorld()
  await put(world, created('T-1', { agent: 'coder', capabilities: ['gpu'] }))
  await expect(dispatch(dispatcherOf(world), 'T-1', never)).rejects.toMatchObject({
    code: 'not_ready',
    message: expect.stringContaining('needs an agent that can gpu') as string,
  })
  expect(world.kernel.turns.size).toBe(0)
})
