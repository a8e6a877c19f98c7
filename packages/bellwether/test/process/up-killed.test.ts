/**
 * Kills `up`, its worker, the guardian and the cleaner with SIGKILL, in any combination, while a command with a hidden child runs.
 * `npm test` kills `up`, worker and guardian together; `npm run thorough` kills every subset of the four but the whole set, which the
 * next start cleans up.
 */
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readProcess, readProcesses, type Process } from '../../src/ports/processes/proc.js'
import { carriers } from '../executors/command-setup.js'
import { descendants } from '../support/processes/descendants.js'
import { ask, testProject } from '../support/folder.js'
import { thorough } from '../support/thorough.js'
import { until } from '../support/until.js'

const victims = ['up', 'worker', 'guardian', 'cleaner'] as const
type Victim = (typeof victims)[number]

const subsets: Victim[][] = thorough
  ? Array.from({ length: 14 }, (_, mask) => victims.filter((_victim, at) => ((mask + 1) >> at) & 1))
  : [['up', 'worker', 'guardian']]

const lives = (one: Process) => {
  const now = readProcess(one.pid)
  return now !== undefined && !now.zombie && now.start === one.start
}

it.each(subsets.map((subset) => [subset.join(', '), subset] as const))(
  'no process is left after these were killed together: %s',
  async (_name, subset) => {
    const project = await testProject()
    const hide = `env -i /bin/sh -c 'setsid sleep 1000 & exit'`
    await writeFile(join(project.folder, 'run.sh'), `${hide}\nsetsid sleep 1000 &\ntouch hidden\nsleep 1000\n`)
    await writeFile(join(project.folder, 'agents', 'sleeper.md'), '---\ncommand: [sh, run.sh]\n---\nSleep.\n')
    const { cli, facts } = await project.up()
    const path = '/api/v1/projects/default/agents/sleeper/turns'
    const { body } = await ask(facts, path, { method: 'POST', body: { instruction: 'sleep' } })
    const turn = String(body['agent_turn_id'])
    await until('the command runs and has hidden its child', async () =>
      carriers(turn).length > 0 && exists(join(project.folder, 'hidden')) ? true : undefined,
    )

    const worker = project.upFile().workers[0]!.pid!
    const guardian = childOf(worker, 'guardian-main')
    const cleaner = childOf(worker, 'bellwether-cleaner')
    const pids: Readonly<Record<Victim, number>> = { up: cli.pid, worker, guardian, cleaner }
    const all = readProcesses().filter((one) => [cli.pid, ...descendants(cli.pid)].includes(one.pid))
    const ofTurn = carriers(turn)
    expect(all.length).toBeGreaterThan(10)
    // All are stopped first, so that none can react to the death of another before its own.
    for (const victim of subset) process.kill(pids[victim], 'SIGSTOP')
    for (const victim of subset) process.kill(pids[victim], 'SIGKILL')

    if (!subset.includes('up')) {
      // The other processes replace those that were killed, and a new worker runs the turn again.
      if (subset.includes('worker'))
        await until('the first run has ended', async () => !ofTurn.some(lives) || undefined)
      await until('the command runs', async () => carriers(turn).length > 0 || undefined)
      cli.signal('SIGTERM')
      await cli.ended
    }
    await until('no process is left', async () => !all.some(lives) || undefined)
    expect(carriers(turn)).toEqual([])
  },
)

function childOf(parent: number, word: string): number {
  return descendants(parent).find((pid) => textOf(`/proc/${pid}/cmdline`).includes(word))!
}

const exists = (path: string) => textOf(path, 'missing') !== 'missing'

function textOf(path: string, otherwise = ''): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return otherwise // not there (yet)
  }
}
