/** Faults of evaluation runs: stops and kills between two statements, hostile patterns and outputs, inputs that disappear. */
import { expect, it } from 'vitest'
import { addTurn } from '../http/test-server.js'
import { join } from '../support/forks.js'
import { runTurns } from '../support/worker.js'
import { caseOf, driver, p, ran, server, settle, show, start, suite, two, worker } from './eval-setup.js'

/** Turns of runs that have not ended. */
const openTurns = () =>
  server.t.all<{ agent_id: string }>(
    "select agent_id from state.turns where ended_at is null and agent_id ~ '-[0-9a-f-]{36}$'",
  )
const stop = (run: string) => server.post(`${p}/eval-runs/${run}/stop`)
const one = two.replace('[[variants]]\nagent = "bad"\n', '')

it('a run that is stopped while its driver starts turns leaves no turn behind', async () => {
  await suite('racing', two)
  const run = await start('racing')
  const { kernel } = server.t
  let forks = 0
  const racing = driver({
    kernel: {
      ...kernel,
      fork: async (batch) => {
        forks += 1
        if (forks === 2) await stop(run)
        return kernel.fork(batch)
      },
    },
  })
  await racing.step()
  expect(forks).toBe(2)
  await settle()
  expect(await show(run)).toMatchObject({ status: 'stopped', done: 2, failed: 2 })
  expect(await openTurns()).toEqual([])
  expect(ran).toEqual([])
})

it('a run that is stopped after its driver was killed starts nothing, and stops what had started', async () => {
  await suite('killed-start', two)
  const run = await start('killed-start')
  const { kernel } = server.t
  let forks = 0
  const dying = driver({
    kernel: {
      ...kernel,
      fork: async (batch) => {
        forks += 1
        // The second turn exists, and the driver is killed before it knows; the third is not reached.
        if (forks === 3) throw new Error('killed')
        return kernel.fork(batch)
      },
    },
  })
  await expect(dying.step()).rejects.toThrow('killed')
  await stop(run)
  await settle()
  expect(await show(run)).toMatchObject({ status: 'stopped', done: 2, failed: 2, cost_micros: 0 })
  expect((await caseOf(run, 1)).results.map(({ status }) => status)).toEqual(['skipped', 'skipped'])
  expect(await openTurns()).toEqual([])
  expect(ran).toEqual([])
})

it('a turn keeps the share of the cost limit that it got before its driver was killed', async () => {
  await suite('shares', `max_cost_usd = 0.01\nconcurrency = 2\n${two}`)
  const run = await start('shares')
  const { kernel } = server.t
  const dying = driver({
    kernel: {
      ...kernel,
      fork: async (batch) => {
        await kernel.fork(batch)
        throw new Error('killed')
      },
    },
  })
  await expect(dying.step()).rejects.toThrow('killed')
  // Another turn has cost more than its share.
  await server.t.all('update state.eval_results set cost_micros = 4000 where run_id = $1 and place = 3', run)
  await driver().step()
  const rows = await server.t.all(
    `select r.share_micros::int as share, b.cost_micros_limit::int as budget from state.eval_results r
      join state.batch_tasks t using (batch_id) join state.budgets b on b.agent_turn_id = t.agent_turn_id
      where r.run_id = $1 order by r.place`,
    run,
  )
  expect(rows).toEqual([
    { share: 5_000, budget: 5_000 },
    { share: 1_000, budget: 1_000 },
  ])
  await stop(run)
  await settle()
})

it('an output of a command with broken characters ends its check, not the run', async () => {
  await suite('hostile', one.replace('contains = "yes"', 'command = "true"'))
  const run = await start('hostile')
  // The end of a long output begins inside of a character, and a program may print a NUL.
  await settle(driver({ runCheck: async () => ({ passed: true, reason: '\udc00 a\0b \ud83d' }) }))
  expect(await show(run)).toMatchObject({ status: 'done', done: 2, passed: 2 })
  expect((await caseOf(run, 0)).results[0]!.checks[1]).toMatchObject({ passed: true, reason: '� a�b �' })
})

it('a run whose checks throw does not keep other runs from their end, and ends when they work again', async () => {
  await suite('a-throwing', one.replace('contains = "yes"', 'command = "true"'))
  await suite('b-healthy', one)
  const [throwing, healthy] = [await start('a-throwing'), await start('b-healthy')]
  const failing = driver({ runCheck: () => Promise.reject(new Error('no sandbox')) })
  const thrown: unknown[] = []
  for (let step = 0; step < 4; step += 1) {
    thrown.push(await failing.step().catch((error: Error) => error.message))
    await join(server.t)
    await runTurns(worker)
    await join(server.t)
  }
  expect(thrown).toContain('no sandbox')
  expect(await show(healthy)).toMatchObject({ status: 'done', passed: 2 })
  expect(await show(throwing)).toMatchObject({ status: 'open', done: 0 })
  await settle()
  expect(await show(throwing)).toMatchObject({ status: 'done', passed: 2 })
})

it('a process that shuts down ends the commands of checks, and the next one makes the checks again', async () => {
  await suite('aborted', one.replace('contains = "yes"', 'command = "true"'))
  const run = await start('aborted')
  const controller = new AbortController()
  const drive = driver({
    runCheck: async ({ signal }) => {
      controller.abort()
      return { passed: false, reason: `aborted: ${String(signal?.aborted)}` }
    },
  })
  await drive.step(controller.signal)
  await join(server.t)
  await runTurns(worker)
  await join(server.t)
  await drive.step(controller.signal)
  expect(controller.signal.aborted).toBe(true)
  expect(await show(run)).toMatchObject({ status: 'open', done: 0 })
  await settle()
  expect(await show(run)).toMatchObject({ status: 'done', passed: 2, failed: 0 })
})

it('a check works without the instruction of a recorded turn that was removed during the run', async () => {
  const recorded = await addTurn(server, 'good', { instruction: 'Recorded question' })
  await runTurns(worker)
  await suite(
    'removed',
    `[[variants]]\nagent = "good"\n[[checks]]\ncommand = "true"\n[[cases]]\nname = "one"\nturn = "${recorded}"\n`,
  )
  const run = await start('removed')
  await driver().step()
  await join(server.t)
  await runTurns(worker)
  await join(server.t)
  await server.t.all('delete from state.agent_inbox where agent_turn_id = $1', recorded)
  const seen: unknown[] = []
  await settle(
    driver({
      runCheck: async ({ input }) => {
        seen.push((JSON.parse(input) as { instruction: unknown }).instruction)
        return { passed: true, reason: 'ran' }
      },
    }),
  )
  expect(seen).toEqual([null])
  expect(await show(run)).toMatchObject({ status: 'done', passed: 1 })
})
