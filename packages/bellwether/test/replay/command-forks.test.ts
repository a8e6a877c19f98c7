/** Forks of the turn of a program at each of its steps, with real processes. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readTrail } from '../../src/kernel/reads/trail.js'
import { forkOf } from '../../src/worker/replay/fork.js'
import { replay } from '../../src/worker/replay/replay.js'
import { openCommandSetup, type CommandSetup } from '../executors/command-setup.js'
import { project } from '../support/kernel.js'
import { rowsHash } from '../support/replays.js'

let b: CommandSetup
beforeAll(async () => {
  b = await openCommandSetup()
})
afterAll(() => b?.close())

const trailOf = async (turn: string) => (await readTrail(b.t.db, project, turn, 'test'))!

it('forks the turn of a program at each of its steps: the program runs again only at step 0, and the original does not change', async () => {
  const runs = join(b.folder, 'runs')
  const command = ['/bin/sh', '-c', `cat; echo run >> ${runs}; echo "this is run $(wc -l < ${runs} | tr -d ' ')"`]
  const count = async () => (await readFile(runs, 'utf8')).trim().split('\n').length
  const turn = await b.begin({ command, sandbox: 'none' } as never)
  const first = await b.ended(turn)
  expect([first.outcome, first.text, await count()]).toEqual(['success', expect.stringContaining('this is run 1'), 1])
  const trail = await trailOf(turn)
  const { first_step: from, steps } = replay(trail)
  expect([from, ...steps.map(({ step }) => step)]).toEqual([0, 1])
  const before = await rowsHash(b.t.db, turn)
  for (const [at, ran, text] of [
    [1, 1, first.text],
    [0, 2, expect.stringContaining('this is run 2')],
  ] as const) {
    const fork = forkOf(trail, at, undefined, b.t.ids)
    await b.t.kernel.forkTurn({ ...fork, source: trail.turn, at })
    await b.worker.step()
    const ended = await b.ended(fork.agentTurnId)
    expect([at, ended.outcome, ended.text, await count()]).toEqual([at, 'success', text, ran])
    expect(ended.taskEvents).toBe(1)
    expect(replay(await trailOf(fork.agentTurnId))).toMatchObject({ result: 'exact', executor: 'command' })
  }
  expect(await rowsHash(b.t.db, turn)).toBe(before)
})
