/** What a turn's command leaves behind where no cgroup can be created: the subreaper must find every process. */
import { readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { cgroupHome } from '../../../src/ports/processes/cgroup.js'
import { readProcess, readProcesses } from '../../../src/ports/processes/proc.js'
import { until } from '../../support/until.js'
import { carriers, openCommandSetup, type CommandSetup } from '../command-setup.js'

let setup: CommandSetup
beforeAll(async () => {
  process.env['BELLWETHER_CGROUPS'] = 'off'
  setup = await openCommandSetup()
})
afterAll(() => setup.close())

/** Starts a process that cleared its environment, leads a session and lost its parent; it writes its pid to `name`. */
const hide = (name: string, then = 'exec sleep 1000') =>
  `env -i /bin/sh -c 'setsid sh -c "echo \\$\\$ > ../${name}; ${then}" & exit'; until [ -s ../${name} ]; do sleep 0.01; done`
const pidIn = (name: string) => Number(readFileSync(join(setup.folder, name), 'utf8'))
const lives = (pid: number) => readProcess(pid)?.zombie === false

it('without a cgroup, no child is left that cleared its environment, started a session and lost its parent', async () => {
  const done = await setup.run({ command: `${hide('ended')}; cat; echo out`, cwd: 'work', instructions: 'hello' })
  expect(cgroupHome()).toBeUndefined()
  expect(done).toMatchObject({ outcome: 'success', text: expect.stringMatching(/hello[^]*out/) })
  expect(lives(pidIn('ended'))).toBe(false)
  expect(carriers(done.agent_turn_id!)).toEqual([])
})

it('without a cgroup, a stopped command leaves no hidden child, even one that starts others and ignores SIGTERM', async () => {
  // Bounded: if the test fails, the processes stay.
  const breed = 'trap : TERM; for i in \\$(seq 50); do setsid sleep 1000 & sleep 0.1; done; sleep 1000'
  const turn = await setup.begin({ command: `${hide('stopped', breed)}; sleep 1000`, cwd: 'work' })
  await until('the child hides', async () => isHidden('stopped'))
  for (const scope of setup.worker.running.values()) scope.cancellation.cancel('failed')
  await until('the turn has stopped', async () => setup.worker.running.size === 0 || undefined)
  expect(lives(pidIn('stopped'))).toBe(false)
  expect(readProcesses().filter((one) => isIn(one.pid, setup.folder))).toEqual([])
  expect(carriers(turn)).toEqual([])
})

it('without a cgroup, a command gets its own environment and reports how it ended', async () => {
  process.env['NODE_OPTIONS_TEST'] = 'a=b'
  const env = await setup.run({ command: ['env'], env: ['NODE_OPTIONS_TEST'] })
  const names = env.text.split('\n').map((line) => line.split('=')[0])
  expect(env.text).toContain('NODE_OPTIONS_TEST=a=b')
  expect(names.filter((name) => name!.startsWith('_') || name === 'OLDPWD')).toEqual([])
  const failed = await setup.run({ command: 'echo oops >&2; exit 3' })
  const killed = await setup.run({ command: 'kill -9 $$' })
  const missing = await setup.run({ command: ['no-such-program'] })
  expect(failed.steps[0]!.metadata['exit']).toEqual({ how: 'exited', code: 3 })
  expect(failed.text).toContain('oops')
  expect(killed.steps[0]!.metadata['exit']).toEqual({ how: 'signalled', signal: 'SIGKILL' })
  expect(missing.steps[0]!.metadata['exit']).toMatchObject({ how: 'not_started', code: 'ENOENT' })
})

it('without a cgroup, a command that kills its parent ends itself and not the worker', async () => {
  const done = await setup.run({ command: 'setsid sleep 1000 & kill -9 $PPID; sleep 1000' })
  expect(done).toMatchObject({ outcome: 'failed' })
  expect(carriers(done.agent_turn_id!)).toEqual([])
})

/** Whether the process that writes its pid to this file runs. */
function isHidden(name: string): true | undefined {
  try {
    return lives(pidIn(name)) || undefined
  } catch {
    return undefined // not written yet
  }
}

function isIn(pid: number, folder: string): boolean {
  try {
    return readlinkSync(`/proc/${pid}/cwd`).startsWith(folder)
  } catch {
    return false // the process has ended
  }
}
