/** One task from claim to end, as dispatch reports it, on the real fold with a fake kernel. */
import { onAbort } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { makeAlerts } from '../../../src/board/dispatch/alerts.js'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import { patchRequest } from '../../../src/board/dispatch/requests.js'
import { defaultCallPolicy } from '../../../src/ports/retry.js'
import { quietLog } from '../../support/quiet-log.js'
import {
  boardOf,
  created,
  dispatched,
  dispatcherOf,
  makeWorld,
  never,
  policies,
  put,
  taskOf,
  type World,
} from '../../support/board/dispatcher.js'
import { settle } from '../../support/hand-clock.js'

const typesOf = (world: World) => world.root.events.map(({ type }) => type)

describe('dispatch of one task', () => {
  it('[H7.4] [H8.3] dispatch claims the task, writes the intent line, spawns with its id as the key, and ends as done with metrics', async () => {
    const world = makeWorld()
    await put(world, created('T-1', { instruction: 'Write it.' }))
    const report = await dispatched(world, 'T-1', () => ({ tokenUsage: 321, elapsedMs: 42 }))
    expect(report).toMatchObject({
      taskId: 'T-1',
      status: 'done',
      settledHere: true,
      spawn: { agent: 'coder', outcome: 'success', reasonCode: null, metrics: { elapsedMs: 42, tokenUsage: 321 } },
      knowledge: { degraded: false, degradeReason: null, knowledgeTags: [], backfill: null },
    })
    expect(typesOf(world)).toEqual(['task_created', 'task_claimed', 'task_started', 'task_noted', 'task_done'])
    const intent = world.root.events.find(({ type }) => type === 'task_started')!
    expect([...world.kernel.turns.keys()]).toEqual([intent.eventId])
    expect(world.kernel.turns.get(intent.eventId)!.request).toMatchObject({
      agent: 'coder',
      purse: { limits: { tokens: 12_000, wallTimeMs: 1_200_000 }, used: { tokens: 0 } },
    })
  })

  it('[H6.3] after a failed turn the next agent of the chain retries after a cool-down, with every output field', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const report = await dispatched(world, 'T-1', () => ({ outcome: 'failed', error: 'it broke', deliverable: null }))
    expect(report.status).toBe('blocked')
    expect(report.spawn).toMatchObject({
      reasonCode: 'spawn_failed',
      attempt: 1,
      nextAssignee: 'debugger',
      action: 'retry',
      recoveryState: 'recovery_scheduled',
      cooldownActive: false,
      cooldownUntil: '2026-03-01T12:03:00Z',
      metrics: { elapsedMs: 50, tokenUsage: 100 },
    })
    const cooling = await dispatched(world)
    expect(cooling.spawn).toMatchObject({ cooldownActive: true, attempt: 1, nextAssignee: 'debugger' })
    expect(world.kernel.turns.size).toBe(1)
    await world.clock.advance(180_000)
    const second = await dispatched(world)
    expect([...world.kernel.turns.values()][1]!.request.prompt).toContain(
      '(coder) was not accepted: spawn_failed: it broke',
    )
    expect(second.spawn).toMatchObject({
      agent: 'debugger',
      attempt: 2,
      nextAssignee: 'invest-analyst',
      action: 'retry',
    })
    await world.clock.advance(180_000)
    const third = await dispatched(world)
    expect(third.spawn).toMatchObject({
      agent: 'invest-analyst',
      attempt: 3,
      nextAssignee: 'human',
      action: 'escalate',
      recoveryState: 'escalated_to_human',
    })
    expect(world.alerts.map(({ kind }) => kind)).toEqual(['escalated'])
  })

  it('what a person writes with a retry is in the prompt of the next runs, and gone when one of them is accepted', async () => {
    const world = makeWorld()
    await put(world, created('T-1', { review: true }))
    const prompts: string[] = []
    world.kernel.script = ({ prompt }) => {
      prompts.push(prompt)
      return prompts.length === 2 ? { outcome: 'failed', error: 'it broke', deliverable: null } : {}
    }
    const dispatcher = dispatcherOf(world)
    const comments = [{ path: 'src/a.ts', line: 12, quote: '+x', text: 'Why x?' }]
    await expect(patchRequest(dispatcher, 'T-1', { action: 'done', comments }, 'ann')).rejects.toThrow(
      'Comments belong to the action retry or send_back',
    )
    expect((await dispatched(world)).status).toBe('review')
    await patchRequest(dispatcher, 'T-1', { action: 'retry', reason: 'name the limit', comments }, 'ann')
    await dispatched(world)
    await world.clock.advance(180_000)
    await dispatched(world)
    expect(prompts[0]).not.toContain('asks for changes')
    const written = 'ann looked at the work so far and asks for changes: name the limit\n- src/a.ts:12 (+x): Why x?'
    expect(prompts.slice(1)).toEqual([expect.stringContaining(written), expect.stringContaining(written)])
    expect((await taskOf(world, 'T-1')).fields['feedback']).toBeNull()
  })

  it('[H6.4] output without evidence stays blocked with recovery_pending of the next agent', async () => {
    const world = makeWorld({
      acceptance: { ...policies.acceptance, default: { ...policies.acceptance.default, minEvidence: 1 } },
    })
    await put(world, created('T-1'))
    const report = await dispatched(world, 'T-1', () => ({}))
    expect(report).toMatchObject({
      status: 'blocked',
      reason: 'recovery_pending:debugger',
      spawn: { reasonCode: 'incomplete_output', action: 'retry', cooldownUntil: '2026-03-01T12:02:00Z' },
    })
    expect(report.spawn?.error).toContain('done without evidence')
  })

  it('[H6.3] an agent that reports itself as blocked gives blocked_signal', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const report = await dispatched(world, 'T-1', () => ({ deliverable: { status: 'blocked', reason: 'no access' } }))
    expect(report.spawn).toMatchObject({ reasonCode: 'blocked_signal', error: 'no access', nextAssignee: 'debugger' })
  })

  it('[H1.1] every class of call of a dispatch ends at its own timeout', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const timeouts: Record<string, number> = {}
    /** The first call hangs until its signal fires; later ones succeed. */
    const hangOnce = <T>(name: string, signal: AbortSignal | undefined, result: () => Promise<T>): Promise<T> => {
      if (name in timeouts) return result()
      const startMs = world.clock.monotonicMs()
      timeouts[name] = Number.POSITIVE_INFINITY
      return new Promise<T>((_, reject) => {
        onAbort(signal, () => {
          timeouts[name] = world.clock.monotonicMs() - startMs
          reject(new Error('aborted'))
        })
      })
    }
    const real = dispatcherOf(world)
    const alerts = makeAlerts({
      root: '/memory',
      clock: world.clock,
      random: { next: () => 0.5 },
      log: quietLog,
      calls: defaultCallPolicy,
      send: (_message, signal) => hangOnce('alert', signal, async () => {}),
    })
    const dispatcher = dispatcherOf(world, {
      alerts,
      spawner: {
        ...world.kernel,
        spawn: (request, signal) => hangOnce('spawn', signal, () => world.kernel.spawn(request, signal)),
      },
      evidence: {
        ...real.evidence,
        changeToken: (signal) => hangOnce('changeToken', signal, () => real.evidence.changeToken()),
        inspect: (paths, since, signal) => hangOnce('inspect', signal, () => real.evidence.inspect(paths, since)),
      },
    })
    world.files.set('a.txt', 'present')
    world.kernel.script = () => ({ deliverable: { summary: 's', files: ['a.txt'] } })
    const going = dispatch(dispatcher, 'T-1', never)
    alerts.raise({ kind: 'escalated', text: 'x' })
    for (let second = 0; second < 60; second += 1) await world.clock.advance(1_000)
    expect(await going).toMatchObject({ status: 'done' })
    expect(timeouts).toEqual({ changeToken: 3_000, spawn: 5_000, inspect: 15_000, alert: 10_000 })
  })

  it('[H8.3] the prompt contains the hints, and a knowledge failure is only reported', async () => {
    const world = makeWorld()
    await put(world, created('T-1', { instruction: 'Write it.' }))
    world.kernel.script = () => ({})
    const outcome = { degraded: true, degradeReason: 'a source is broken', knowledgeTags: ['lessons'], backfill: null }
    const section = '<KNOWLEDGE_HINTS>\n- [lessons] test first\n</KNOWLEDGE_HINTS>'
    const dispatcher = dispatcherOf(world)
    const report = await dispatch(
      { ...dispatcher, knowledge: { ...dispatcher.knowledge, hints: async () => ({ section, outcome }) } },
      'T-1',
      never,
    )
    expect(report.knowledge).toEqual({ ...outcome, backfill: null })
    expect([...world.kernel.turns.values()][0]!.request.prompt).toMatch(/Write it\.[^]*<KNOWLEDGE_HINTS>/)
  })

  it('[H8.4] a failed run records a lesson, and a done run does not', async () => {
    const world = makeWorld()
    await put(world, created('T-1'), created('T-2'))
    const report = await dispatched(world, 'T-1', () => ({ outcome: 'timeout', error: 'too slow', deliverable: null }))
    expect(report.knowledge?.backfill).toMatchObject({ written: true, tags: ['dispatch_failure'] })
    await dispatched(world, 'T-2', () => ({}))
    expect(world.lessons).toEqual(['T-1 spawn_failed'])
  })

  it('a rejected spawn gives spawn_failed; a late one is found by its key', async () => {
    const world = makeWorld()
    await put(world, created('T-1'), created('T-2'))
    world.kernel.spawnErrors.push(new Terminal('no such agent', { code: 'unknown_agent' }))
    const refused = await dispatched(world)
    expect(refused.spawn).toMatchObject({
      reasonCode: 'spawn_failed',
      error: 'no such agent',
      nextAssignee: 'debugger',
    })
    expect(world.kernel.turns.size).toBe(0)

    world.kernel.spawnErrors.push(new Retryable('kernel away', { code: 'ECONNRESET' }))
    world.kernel.script = () => ({})
    const going = dispatched(world, 'T-2')
    await settle()
    await world.clock.advance(1_000)
    expect((await going).status).toBe('done')
    expect(world.kernel.turns.size).toBe(1)
  })

  it('a spawn that succeeds after it was given up is stopped', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    let land = () => {}
    const landing = new Promise<void>((resolve) => (land = resolve))
    const slow: typeof world.kernel.spawn = (...args) => landing.then(() => world.kernel.spawn(...args))
    const going = dispatch(dispatcherOf(world, { spawner: { ...world.kernel, spawn: slow } }), 'T-1', never)
    await settle()
    for (let second = 0; second < 20; second += 1) await world.clock.advance(1_000)
    expect((await going).spawn).toMatchObject({ reasonCode: 'spawn_failed', nextAssignee: 'debugger' })
    land()
    await settle()
    expect([...world.kernel.turns.values()].map(({ ended }) => ended?.outcome)).toEqual(['canceled'])
  })

  it('the turn of a run that another process closed during the spawn is stopped', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const spawn: typeof world.kernel.spawn = async (...args) => {
      const started = await world.kernel.spawn(...args)
      await boardOf(world).write(() => [
        { taskId: 'T-1', type: 'task_blocked', actor: 'other', payload: { runId: args[0].key, outcome: 'unknown' } },
      ])
      return started
    }
    const report = await dispatch(dispatcherOf(world, { spawner: { ...world.kernel, spawn } }), 'T-1', never)
    expect(report).toMatchObject({ status: 'blocked', settledHere: false })
    expect(world.kernel.calls).toContain('stop T-1: its run was closed before it started')
  })

  it('while the kernel is unreachable the run stays open, and nothing is decided', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const away = () => Promise.reject(new Retryable('kernel away', { code: 'ECONNREFUSED' }))
    const stop = new AbortController()
    const kernel = { ...world.kernel, spawn: away, status: away, ended: away }
    const going = dispatch(dispatcherOf(world, { spawner: kernel }), 'T-1', stop.signal)
    for (let second = 0; second < 20; second += 1) await world.clock.advance(1_000)
    stop.abort()
    for (let second = 0; second < 20; second += 1) await world.clock.advance(1_000)
    expect(await going).toMatchObject({ status: 'in_progress', settledHere: false })
    expect((await taskOf(world)).runs.at(-1)?.endedAt).toBeUndefined()
  })

  it('dispatch reports why a task is not ready', async () => {
    const world = makeWorld()
    await put(
      world,
      created('T-1'),
      created('T-2', { dependencies: ['T-1'] }),
      created('T-3', { requiresApproval: true }),
    )
    await expect(dispatched(world, 'T-2')).rejects.toThrow('it depends on T-1, which is pending')
    await expect(dispatched(world, 'T-3')).rejects.toThrow('it needs approval')
    await expect(dispatched(world, 'nope')).rejects.toThrow('it does not exist')
  })

  it('claimed files are inspected and recorded with size and hash, and commands must pass', async () => {
    const world = makeWorld()
    await put(world, created('T-1', { verify: ['npm test'] }), created('T-2', { verify: ['npm test'] }))
    world.files.set('a.txt', { found: 'present', size: 3, sha256: 'abc' })
    const claim = { deliverable: { summary: 's', files: ['a.txt'] } }
    await dispatched(world, 'T-1', () => claim)
    expect((await taskOf(world)).fields['evidence']).toMatchObject({
      files: [{ path: 'a.txt', size: 3, sha256: 'abc' }],
      commands: [{ command: 'npm test', exitCode: 0 }],
    })
    world.verify = () => ({ exitCode: 1 })
    const report = await dispatched(world, 'T-2', () => claim)
    expect(report.spawn).toMatchObject({
      reasonCode: 'incomplete_output',
      error: 'verify command exited with 1: npm test',
    })
  })

  it('a view that is not ready means wait, never missing; after the maximum wait a person is asked', async () => {
    const world = makeWorld()
    await put(world, created('T-1', { verify: ['npm test'] }), created('T-2', { verify: ['npm test'] }))
    world.files.set('a.txt', 'not_ready')
    world.kernel.script = () => ({ deliverable: { files: ['a.txt'] } })
    const going = dispatched(world)
    await settle()
    await world.clock.advance(20_000)
    expect((await taskOf(world)).status).toBe('in_progress')
    expect(world.verified).toEqual([])
    world.files.set('a.txt', 'present')
    await world.clock.advance(5_000)
    expect((await going).status).toBe('done')

    world.files.set('a.txt', 'not_ready')
    const second = dispatched(world, 'T-2')
    await settle()
    for (let at = 0; at < 610; at += 5) await world.clock.advance(5_000)
    expect((await second).spawn).toMatchObject({ reasonCode: 'evidence_unavailable', nextAssignee: 'human' })
  })

  it('a deliverable that is too large and invalid usage do not prevent closing the run', async () => {
    const world = makeWorld()
    await put(world, created('T-1'), created('T-2'))
    let deep: Record<string, unknown> = {}
    for (let depth = 0; depth < 200; depth += 1) deep = { deep }
    const report = await dispatched(world, 'T-1', () => ({ deliverable: deep, tokenUsage: Number.NaN, elapsedMs: -5 }))
    expect(report).toMatchObject({ status: 'done', spawn: { metrics: { tokenUsage: 0, elapsedMs: 0 } } })
    const board = boardOf(world)
    const picky = {
      ...board,
      get state() {
        return board.state
      },
      write: (decide: Parameters<typeof board.write>[0]) =>
        board.write((state) => {
          const drafts = decide(state)
          if (drafts.some(({ payload }) => payload?.['deliverable'] !== undefined))
            throw new InvalidInput('too long', { code: 'too_long' })
          return drafts
        }),
    }
    world.kernel.script = () => ({})
    const second = await dispatch(dispatcherOf(world, { board: picky }), 'T-2', never)
    expect(second).toMatchObject({ status: 'blocked', spawn: { reasonCode: 'unrecordable', nextAssignee: 'human' } })
  })

  it('a task with review waits for a person after acceptance', async () => {
    const world = makeWorld()
    await put(world, created('T-1', { review: true }))
    expect((await dispatched(world, 'T-1', () => ({}))).status).toBe('review')
  })
})
