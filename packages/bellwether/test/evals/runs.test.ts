/** Runs of suites over HTTP with turns of functions: checks, judges, comparisons, and a driver that is killed anywhere. */
import { expect, it } from 'vitest'
import { addTurn } from '../http/test-server.js'
import { join } from '../support/forks.js'
import { runTurns } from '../support/worker.js'
import { caseOf, driver, p, ran, server, settle, show, start, suite, two, worker } from './eval-setup.js'

it('runs each case with each variant, and shows both side by side', async () => {
  await suite('answers', two)
  const run = await start('answers')
  await settle()
  expect(await show(run)).toMatchObject({
    status: 'done',
    results: 4,
    done: 4,
    passed: 2,
    failed: 2,
    cases: 2,
    variants: [
      { variant: 'good', passed: 2, failed: 0, duration_p50_ms: expect.any(Number) },
      { variant: 'bad', passed: 0, failed: 2 },
    ],
    differing: ['refund', 'greeting'],
    failing: [
      { case: 'refund', variant: 'bad', repeat: 1, reason: 'contains yes: the output does not contain "yes"' },
      { case: 'greeting', variant: 'bad' },
    ],
    comparison: null,
  })
  // Each turn had an agent of its own; those that people use got none.
  expect(ran.toSorted().map((name) => name.slice(0, 4))).toEqual(['bad-', 'bad-', 'good', 'good'])
  expect(ran).not.toContain('good')
  const detail = await caseOf(run, 0)
  expect(detail).toMatchObject({
    case: 'refund',
    instruction: 'How do refunds work?',
    results: [
      { variant: 'good', output: 'yes: How do refunds work?', passed: true },
      { variant: 'bad', output: 'no', passed: false },
    ],
  })
  expect((await server.get(`${p}/turns/${detail.results[0]!.agent_turn_id}`)).body).toMatchObject({
    outcome: 'success',
  })
  const failed = await server.get(`${p}/eval-runs/${run}/results?show=failed&limit=1`)
  expect(failed.body).toMatchObject({ cases: [{ case: 'refund', differs: true }], cursor: '0' })
  expect((await server.get(`${p}/eval-runs/${run}/results?show=failed&limit=1&cursor=0`)).body).toMatchObject({
    cases: [{ case: 'greeting' }],
    cursor: null,
  })
})

it('a driver that is killed after any of its statements continues the run, and starts no turn twice', async () => {
  await suite(
    'killed',
    `repeat = 2\n${two.replace('contains = "yes"', 'judge = { agent = "judge", question = "Polite?" }')}`,
  )
  const run = await start('killed')
  const { kernel } = server.t
  // Dies at its first, second, third … call of the database, until it reaches the end.
  let calls = 0
  for (let limit = 1; limit < 400; limit += 1) {
    calls = 0
    const count = () => {
      calls += 1
      if (calls > limit) throw new Error('killed')
    }
    const db = new Proxy(kernel.db, {
      get: (real, key) =>
        key === 'query' ? (statement: never) => (count(), real.query(statement)) : Reflect.get(real, key, real),
    })
    const dying = driver({
      kernel: {
        ...kernel,
        db,
        fork: async (batch) => {
          const forked = await kernel.fork(batch)
          count()
          return forked
        },
      },
    })
    if ((await dying.step().catch(() => 'killed')) === 'quiet') break
    if (limit % 3 === 0) {
      await join(server.t)
      await runTurns(worker)
    }
  }
  await settle()
  expect(await show(run)).toMatchObject({ status: 'done', results: 8, done: 8, passed: 4, failed: 4 })
  expect(ran.filter((name) => name.startsWith('judge'))).toHaveLength(8)
  expect(ran).toHaveLength(16)
  expect(await caseOf(run, 0)).toMatchObject({
    results: [
      {
        checks: [
          { check: 'outcome', passed: true },
          { check: 'judge judge', passed: true, reason: 'polite', agent_turn_id: expect.any(String) },
        ],
      },
      {},
      { checks: [{}, { passed: false, reason: 'a bare no' }] },
      {},
    ],
  })
})

it('a repeated request continues the open run, and another request is refused', async () => {
  await suite('repeated', two)
  const run = await start('repeated', { cases: ['refund'] })
  expect(await start('repeated', { cases: ['refund'] })).toBe(run)
  expect(await server.post(`${p}/evals/repeated/runs`, {})).toMatchObject({
    status: 409,
    body: { code: 'eval_running' },
  })
  const both = await Promise.all([1, 2, 3].map(() => start('repeated', { cases: ['refund'] })))
  expect(new Set(both)).toEqual(new Set([run]))
  await settle()
  expect(await show(run)).toMatchObject({ results: 2, cases: 1 })
  expect(await start('repeated', { variants: ['good'] })).not.toBe(run)
  await settle()
})

it('names the regressions since an earlier run', async () => {
  await suite('compared', two)
  const before = await start('compared', { variants: ['good'] })
  await settle()
  await suite(
    'compared',
    two.replace('contains = "yes"', 'contains = "refunds"').replace('name = "greeting"', 'name = "hello"'),
  )
  const now = await start('compared')
  await settle()
  expect((await show(now, `?against=${before}`)).comparison).toEqual({
    against: before,
    compared: 1,
    regressions: [],
    improvements: [],
    missing: [{ case: 'greeting', variant: 'good' }],
  })
  await suite('compared', two.replace('contains = "yes"', 'contains = "weeks"'))
  const later = await start('compared', { variants: ['good'] })
  await settle()
  expect((await show(later, '?against=last')).comparison).toMatchObject({
    against: now,
    regressions: [{ case: 'refund', variant: 'good', before: '1/1', now: '0/1' }],
  })
  expect((await show(now, `?against=${later}`)).comparison).toMatchObject({
    improvements: [{ case: 'refund', variant: 'good', before: '0/1', now: '1/1' }],
  })
  await suite('other', two)
  const other = await start('other')
  await settle()
  for (const against of [now, 'nothing'])
    expect((await server.get(`${p}/eval-runs/${other}?against=${against}`)).status).toBe(against === now ? 400 : 404)
})

it('takes the input of a recorded turn and of an exported trail, with the fields that they ask for', async () => {
  const recorded = await addTurn(server, 'good', { instruction: 'Recorded question' })
  await runTurns(worker)
  const { body } = await server.get(`${p}/turns/${recorded}/export`)
  const text = `
[[variants]]
agent = "good"
[[checks]]
contains = "Recorded question"
[[cases]]
name = "by turn"
turn = "${recorded}"
[[cases]]
name = "by trail"
trail = "one.json"
`
  await suite('inputs', text, { 'one.json': JSON.stringify(body) })
  const run = await start('inputs')
  await settle()
  expect(await show(run)).toMatchObject({ passed: 2, failed: 0 })
  expect(await caseOf(run, 0)).toMatchObject({ instruction: 'Recorded question', turn: recorded })
  expect(await caseOf(run, 1)).toMatchObject({ instruction: 'Recorded question', turn: null })
  await suite('inputs', text.replace(recorded, 'gone'), { 'one.json': JSON.stringify(body) })
  expect(await server.post(`${p}/evals/inputs/runs`, {})).toMatchObject({ status: 404, body: { code: 'unknown_turn' } })
})

it('runs a command only while an accepted file names it', async () => {
  await suite(
    'commands',
    two.replace('contains = "yes"', 'command = "true"').replace('[[variants]]\nagent = "bad"\n', ''),
  )
  const seen: string[] = []
  const run = await start('commands')
  await settle(
    driver({
      isTrusted: (command) => command === 'true' && seen.length === 0,
      runCheck: async ({ input }) => {
        seen.push(input)
        return { passed: true, reason: 'ran' }
      },
    }),
  )
  expect(seen.map((input) => JSON.parse(input) as unknown)).toEqual([
    {
      case: 'refund',
      variant: 'good',
      instruction: 'How do refunds work?',
      output: 'yes: How do refunds work?',
      deliverable: { text: 'yes: How do refunds work?' },
    },
  ])
  expect(await show(run)).toMatchObject({
    passed: 1,
    failed: 1,
    failing: [{ reason: expect.stringContaining('the command was not run') }],
  })
})

it('stops a run with its turns, and starts nothing more', async () => {
  await suite('stopped', `concurrency = 1\n${two}`)
  const run = await start('stopped')
  await driver().step()
  expect(await server.post(`${p}/eval-runs/${run}/stop`)).toMatchObject({ status: 200, body: { status: 'stopping' } })
  await settle()
  expect(await show(run)).toMatchObject({
    status: 'stopped',
    reason: expect.stringContaining('stopped by'),
    results: 4,
    done: 1,
    failed: 1,
  })
  expect(await server.post(`${p}/eval-runs/${run}/stop`)).toMatchObject({ status: 409, body: { code: 'eval_ended' } })
  expect(ran).toEqual([])
  expect((await caseOf(run, 1)).results.map(({ status }) => status)).toEqual(['skipped', 'skipped'])
})
