/** The bounds of evaluation runs: cost, agents, roles, size and retention. */
import { expect, it } from 'vitest'
import type { Body } from '../http/test-server.js'
import { join } from '../support/forks.js'
import { runTurns } from '../support/worker.js'
import { driver, p, server, settle, show, start, suite, two, worker } from './eval-setup.js'

it('spends no more than its limit: each turn has a share, and the run ends when nothing is left', async () => {
  await suite('limited', `max_cost_usd = 0.01\nconcurrency = 2\nrepeat = 5\n${two}`)
  const run = await start('limited')
  const { t } = server
  const limits: number[] = []
  for (let step = 0; step < 40 && (await driver().step()) === 'busy'; step += 1) {
    await join(t)
    const turns = await t.claim()
    for (const turn of turns) {
      const { limit } = await t.one<{ limit: number }>(
        'select cost_micros_limit::int as limit from state.budgets where agent_turn_id = $1',
        turn.agentTurnId,
      )
      limits.push(limit)
      // It uses all it may.
      await t.kernel.record({
        ...turn,
        step: {
          stepId: `s-${turn.agentTurnId}`,
          phase: 'model',
          status: 'success',
          metadata: { usage: { total_tokens: 5 }, cost_micros: Math.min(limit, 3_000) },
        },
      } as never)
      await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'yes' } })
    }
    await join(t)
  }
  const shown = await show(run)
  expect(shown).toMatchObject({
    status: 'stopped',
    reason: 'the cost limit of $0.01 covers no further turn',
    results: 20,
  })
  expect(shown.cost_micros).toBeLessThanOrEqual(10_000)
  expect(limits[0]).toBe(5_000)
  expect(shown.done).toBeLessThan(20)
})

it('keeps a turn that cannot start as a failed result, and an unknown agent refuses the run', async () => {
  await suite('unknown', two.replace('agent = "bad"', 'agent = "stranger"'))
  expect(await server.post(`${p}/evals/unknown/runs`, {})).toMatchObject({
    status: 404,
    body: { code: 'unknown_agent' },
  })
  expect(await server.post(`${p}/evals/unknown/runs`, { variants: ['great'] })).toMatchObject({
    status: 400,
    body: { code: 'unknown_name' },
  })
  expect(await server.post(`${p}/evals/nothing/runs`, {})).toMatchObject({ status: 404 })
  await suite('broken', 'x = ')
  expect(await server.post(`${p}/evals/broken/runs`, {})).toMatchObject({ status: 409, body: { code: 'eval_invalid' } })
  // An invalid version leaves the last valid one in force, and says why.
  await suite('answers', two)
  await suite('answers', 'x = ')
  const { suites } = (await server.get(`${p}/evals`)).body as { suites: Body[] }
  expect(suites.find((one) => one['suite'] === 'answers')).toMatchObject({
    cases: 2,
    problem: expect.stringContaining('invalid TOML'),
  })
})

it('[roles] readers see suites and runs, operators start and stop them, and other roles reach nothing', async () => {
  await suite('roles', two)
  const url = `${p}/evals/roles/runs`
  const run = await start('roles')
  for (const [role, read, write] of [
    ['reader', 200, 403],
    ['operator', 200, 202],
    ['worker', 403, 403],
    ['sensor', 403, 403],
    ['answerer', 403, 403],
  ] as const) {
    const key = server.keys[role]
    const reads = [
      `${p}/evals`,
      `${p}/eval-runs`,
      `${p}/eval-runs/${run}`,
      `${p}/eval-runs/${run}/results`,
      `${p}/eval-runs/${run}/results/0`,
    ]
    for (const path of reads) expect([role, path, (await server.get(path, { key })).status]).toEqual([role, path, read])
    expect([role, (await server.post(url, {}, { key })).status]).toEqual([role, write])
  }
  expect((await server.post(`${p}/eval-runs/${run}/stop`, {}, { key: server.keys.reader })).status).toBe(403)
  expect((await server.post(`${p}/eval-runs/${run}/stop`, {}, { key: server.keys.operator })).status).toBe(200)
  expect((await server.get(`/projects/q/eval-runs/${run}`)).status).toBe(404)
  await settle()
})

it('holds a run of 1,000 cases within bounds, and retention removes it', async () => {
  const cases = Array.from(
    { length: 1_000 },
    (_, at) => `[[cases]]\nname = "c${at}"\ninstruction = "question ${at}"\n`,
  ).join('')
  await suite('many', `concurrency = 9\n[[variants]]\nagent = "good"\n[[checks]]\ncontains = "7"\n${cases}`)
  const run = await start('many')
  const drive = driver()
  for (let step = 0; step < 3; step += 1) {
    await drive.step()
    const { open } = await server.t.one<{ open: number }>(
      "select count(*)::int as open from state.eval_results where run_id = $1 and status = 'started'",
      run,
    )
    expect(open).toBeLessThanOrEqual(9)
    await join(server.t)
    await runTurns(worker)
    await join(server.t)
  }
  const page = (await server.get(`${p}/eval-runs/${run}/results?limit=200`)).body as { cases: Body[]; cursor: string }
  expect([page.cases.length, page.cursor]).toEqual([200, '199'])
  expect(Buffer.byteLength(JSON.stringify(page))).toBeLessThan(100_000)
  await server.post(`${p}/eval-runs/${run}/stop`)
  await settle()
  await server.t.all("update state.eval_runs set created_at = created_at - interval '90 days' where run_id = $1", run)
  await server.t.all('select state.prune(30, 1000)')
  expect((await server.get(`${p}/eval-runs/${run}`)).status).toBe(404)
  expect(await server.t.all('select from state.eval_results where run_id = $1', run)).toEqual([])
})
