import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { cgroupHome } from '../../../src/ports/processes/cgroup.js'
import { killTree } from '../../../src/ports/processes/kill-tree.js'
import { freezeTree, thawTree } from '../../../src/ports/processes/freeze-tree.js'
import { openGuardian } from '../../../src/ports/processes/guardian.js'
import { readProcess, readProcesses, readSelf } from '../../../src/ports/processes/proc.js'
import { sweepOlder, sweepOrphans } from '../../../src/ports/processes/sweep.js'
import { tokenName, writeToken } from '../../../src/ports/processes/token.js'
import { manualTimeout } from '../../support/manual-timeout.js'
import { testFolder } from '../../support/postgres.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'
import { areStopped, carriers, guardianProgram, openCommandSetup, type CommandSetup } from '../command-setup.js'

const gone = (pid: number) =>
  until(`process ${pid} is gone`, async () => ((readProcess(pid)?.zombie ?? true) ? true : undefined), 10_000)

const stopped = (pid: number, wanted: boolean) =>
  until(`process ${pid} is stopped: ${wanted}`, async () => readProcess(pid)?.stopped === wanted || undefined, 10_000)

/** The cgroups of turns of this process that were not removed. */
const cgroupNames = () =>
  cgroupHome() === undefined ? [] : readdirSync(cgroupHome()!).filter((name) => name.includes(`.${process.pid}.`))

/** Starts a process with this token that ignores SIGTERM. */
function sleeper(token: string): number {
  const child = spawn('/bin/sh', ['-c', 'trap "" TERM; exec sleep 1000'], {
    env: { PATH: process.env['PATH']!, [tokenName]: token },
    detached: true,
    stdio: 'ignore',
  })
  onTestFinished(async () => {
    await killTree({ clock: systemClock, graceMs: 0, wanted: (one) => one === token })
  })
  return child.pid!
}

describe('the guardian', () => {
  const options = { clock: systemClock, log: quietLog, graceMs: 50, program: guardianProgram }

  it('the guardian freezes the processes of a turn that is not renewed, continues them after a renewal, and spares other turns', async () => {
    const ttlMs = 600_000
    const guardian = openGuardian({ ...options, ttlMs })
    onTestFinished(() => guardian.close())
    const tokens = ['silent', 'renewed', 'over'].map((name) => `guardian-test-${name}-${process.pid}`)
    const nowMs = systemClock.monotonicMs()
    // The last beat of the silent turn is already too old; the others have ten minutes, so the speed of the machine decides nothing.
    const [silent, renewed, over] = await Promise.all(
      tokens.map((token, index) => guardian.watch(token, index === 0 ? nowMs - ttlMs : nowMs)),
    )
    const [silentPid, renewedPid, overPid] = tokens.map(sleeper)
    silent!.root(silentPid!)
    over!.release()
    renewed!.renew(systemClock.monotonicMs() + 60_000)
    await stopped(silentPid!, true)
    expect([silent!.lost.aborted, renewed!.expired()]).toEqual([false, false])
    for (const pid of [renewedPid!, overPid!]) expect(readProcess(pid)?.stopped).toBe(false)
    silent!.renew(systemClock.monotonicMs() + 60_000)
    await stopped(silentPid!, false)
    expect(silent!.frozenMs()).toBeGreaterThan(0)
    // The worker ends: the guardian kills the processes that it still watches, and exits.
    const pid = guardian.pid!
    guardian.close()
    await gone(silentPid!)
    await gone(renewedPid!)
    await gone(pid)
    expect(readProcess(overPid!)?.zombie).toBe(false)
  })

  it('the guardian counts the time from when the beat was sent, not from when the renewal arrived', async () => {
    const ttlMs = 600_000
    const guardian = openGuardian({ ...options, ttlMs })
    onTestFinished(() => guardian.close())
    const token = `guardian-test-late-${process.pid}`
    const watch = await guardian.watch(token, systemClock.monotonicMs() - ttlMs)
    const pid = sleeper(token)
    watch.root(pid)
    watch.renew(systemClock.monotonicMs() - ttlMs + 100)
    await stopped(pid, true)
    // The clock that both processes share has a coarser resolution than the worker's own.
    expect(await until('the worker knows', async () => watch.expired() || undefined)).toBe(true)
  })

  it('a guardian that does not respond is replaced', async () => {
    const responseMaxMs = 4_000
    const timeout = manualTimeout(responseMaxMs)
    const guardian = openGuardian({ ...options, clock: timeout.clock, ttlMs: 60_000, responseMaxMs })
    onTestFinished(() => guardian.close())
    const token = `guardian-test-mute-${process.pid}`
    const watch = await guardian.watch(token, systemClock.monotonicMs())
    const first = guardian.pid!
    process.kill(first, 'SIGSTOP')
    watch.renew(systemClock.monotonicMs())
    timeout.elapse()
    await gone(first)
    await until('there is another', async () => ![undefined, first].includes(guardian.pid) || undefined)
    expect(watch.lost.aborted).toBe(false)
    const pid = sleeper(token)
    guardian.close()
    await gone(pid)
  })

  it('a cleaner that was killed is replaced while a turn is watched', async () => {
    const token = `guardian-test-cleaner-${process.pid}`
    const guardian = openGuardian({ ...options, ttlMs: 60_000, workerTokens: token })
    onTestFinished(() => guardian.close())
    const cleaner = () =>
      readProcesses().find(({ pid, zombie }) => {
        const path = `/proc/${pid}/cmdline`
        if (zombie || !existsSync(path)) return false
        const words = readFileSync(path, 'utf8').split('\0')
        return words.includes('bellwether-cleaner') && words.includes(token)
      })?.pid
    await guardian.watch(token, systemClock.monotonicMs())
    const first = await until('the cleaner runs', async () => cleaner())
    process.kill(first, 'SIGKILL')
    const second = await until('another cleaner runs', async () => {
      const pid = cleaner()
      return pid === first ? undefined : pid
    })
    expect(second).not.toBe(first)
  })

  it('without a running guardian no command starts', async () => {
    const mortal = openGuardian({ ...options, ttlMs: 60_000, program: ['-e', 'process.exit(1)'] })
    await expect(mortal.watch('guardian-test-mortal', systemClock.monotonicMs())).rejects.toThrow(
      'the guardian is not running',
    )
  })
})

// A parent whose child waits between vfork and exec, for the writer of a named pipe.
const forking = `const libc = require(process.argv[1]).load(null)
const actions = Buffer.alloc(256)
libc.func('int posix_spawn_file_actions_init(void *)')(actions)
libc.func('int posix_spawn_file_actions_addopen(void *, int, str, int, int)')(actions, 0, process.argv[2], 0, 0)
libc.func('int posix_spawn(void *, str, void *, void *, char **, char **)')(
  Buffer.alloc(8), '/bin/true', actions, null, ['true', null], [null])
console.log('runs')`

it('a frozen process that was blocked in the kernel continues after the thaw', async () => {
  const pipe = join(await testFolder(), 'pipe')
  execFileSync('mkfifo', [pipe])
  const koffi = createRequire(import.meta.url).resolve('koffi')
  const child = spawn(process.execPath, ['-e', forking, '--', koffi, pipe], { detached: true })
  onTestFinished(() => void child.kill('SIGKILL'))
  const root = child.pid!
  const tree = { clock: systemClock, wanted: () => false, root }
  // Before it has a child, it may be blocked for a moment by the disk.
  const hasChild = () => readProcesses().some((one) => one.parent === root)
  await until('it waits for its child', async () => (hasChild() && readProcess(root)?.blocked) || undefined)
  await freezeTree(tree)
  expect(readProcess(root)).toMatchObject({ blocked: true, stopped: false })
  await thawTree(tree)
  await Promise.all([once(child.stdout, 'data'), writeFile(pipe, '')])
})

describe('a sweep', () => {
  const self = readSelf()
  const mine = {
    installation: `sweep-${process.pid}`,
    ...self,
    projectId: 'p',
    agentId: 'a',
    agentTurnId: 't',
    turnEpoch: 5,
  }
  const sweep = { clock: systemClock, graceMs: 0, installation: mine.installation }

  it('a sweep kills processes of dead workers, but none of live workers, other installations or other pid namespaces', async () => {
    const dead = sleeper(writeToken({ ...mine, workerStart: '1' }))
    const others = [
      mine,
      { ...mine, workerStart: '1', installation: 'another' },
      { ...mine, workerStart: '1', namespace: '1' },
    ].map((token) => sleeper(writeToken(token)))
    expect(await sweepOrphans(sweep, self)).toBeGreaterThan(0)
    await gone(dead)
    for (const pid of others) expect(readProcess(pid)?.zombie).toBe(false)
  })

  it("a sweep kills processes of an agent's older epochs, never of a newer one", async () => {
    const older = sleeper(writeToken({ ...mine, turnEpoch: 4 }))
    const others = [mine, { ...mine, turnEpoch: 6 }, { ...mine, turnEpoch: 4, agentId: 'b' }].map((token) =>
      sleeper(writeToken(token)),
    )
    expect(await sweepOlder(sweep, mine)).toBeGreaterThan(0)
    await gone(older)
    for (const pid of others) expect(readProcess(pid)?.zombie).toBe(false)
  })
})

describe('a turn whose worker does not beat', () => {
  let b: CommandSetup
  beforeAll(async () => {
    b = await openCommandSetup({ ttlMs: 2_000 })
  })
  afterAll(() => b.close())

  const ticking =
    'setsid sh -c "while :; do date >> ../ticks; sleep 0.02; done" & until [ -e ../go ]; do sleep 0.05; done; echo fine'
  const frozen = async (turn: string) => {
    // On a busy machine a guardian starts more slowly than a beat expires.
    await until('its processes run', async () => {
      await b.worker.beat()
      return (carriers(turn).length > 2 && existsSync(join(b.folder, 'ticks'))) || undefined
    })
    await until('its processes are frozen', async () => areStopped(turn, true) || undefined)
  }
  /** Beats until the turn has ended: without beats a slow machine would freeze it before its end. */
  const endedWithBeats = async (turn: string) => {
    await until('it runs and ends', async () => {
      await b.worker.beat()
      return !b.worker.running.has(turn) || undefined
    })
    return b.ended(turn)
  }

  it('a turn whose worker does not beat is frozen with all its processes, does not fail, and continues with the next beat', async () => {
    const turn = await b.begin({ command: ticking, cwd: 'work', budget: { max_wall_seconds: 60 } })
    await frozen(turn)
    const ticks = readFileSync(join(b.folder, 'ticks'), 'utf8')
    expect(await b.t.one('select outcome, status from state.turns where agent_turn_id = $1', turn)).toEqual({
      outcome: null,
      status: 'running',
    })
    expect(readFileSync(join(b.folder, 'ticks'), 'utf8')).toBe(ticks)
    await b.write('go', '')
    expect(await endedWithBeats(turn)).toMatchObject({ outcome: 'success', text: 'fine', deaths: 0, taskEvents: 1 })
    expect(carriers(turn)).toEqual([])
  })

  it('loses its frozen processes, which do not run again, if the next beat finds that its fence is lost', async () => {
    await rm(join(b.folder, 'go'), { force: true })
    const turn = await b.begin({ command: `trap 'date >> ../ticks' TERM; ${ticking}`, cwd: 'work' })
    await frozen(turn)
    const ticks = readFileSync(join(b.folder, 'ticks'), 'utf8')
    await b.t.all('update state.agent_state_head set turn_epoch = turn_epoch + 1 where active_agent_turn_id = $1', turn)
    await b.worker.beat()
    await until('they are gone', async () => carriers(turn).length === 0 || undefined)
    expect(readFileSync(join(b.folder, 'ticks'), 'utf8')).toBe(ticks)
    expect(await b.t.one('select outcome from state.turns where agent_turn_id = $1', turn)).toEqual({ outcome: null })
  })

  it('does not count frozen time against its budget', async () => {
    const command = 'until [ -e ../thawed ]; do sleep 0.05; done; echo fine'
    const turn = await b.begin({ command, cwd: 'work', budget: { max_wall_seconds: 600 } })
    await until('it is frozen', async () => areStopped(turn, true) || undefined)
    const pausedMs = () =>
      b.t.one<{ ms: number }>('select paused_ms as ms from state.budgets where agent_turn_id = $1', turn)
    await until('its frozen time is not working time', async () => (await pausedMs()).ms > 0 || undefined)
    expect(carriers(turn)).not.toEqual([])
    await b.write('thawed', '')
    const done = await endedWithBeats(turn)
    expect(done).toMatchObject({ outcome: 'success', text: 'fine' })
    expect(done.steps[0]!.metadata['frozen_ms']).toBe((await pausedMs()).ms)
  })

  it('continues while beats arrive', async () => {
    const turn = await b.begin({ command: 'until [ -e ../enough ]; do sleep 0.05; done; echo fine', cwd: 'work' })
    await until('its process runs', async () => (carriers(turn).length > 0 ? true : undefined))
    const untilMs = systemClock.monotonicMs() + 3_000
    await until('longer than one beat vouches for', async () => {
      await b.worker.beat()
      return systemClock.monotonicMs() > untilMs ? true : undefined
    })
    expect(carriers(turn)).not.toEqual([])
    await b.write('enough', '')
    expect(await endedWithBeats(turn)).toMatchObject({ outcome: 'success', text: 'fine' })
  })

  it('leaves no child that cleared its environment, started a session and lost its parent', async () => {
    const name = `hidden-${process.pid}`
    const hide = `env -i /bin/sh -c 'setsid sh -c "echo \\$\\$ > ../${name}; exec sleep 1000" & exit'`
    const turn = await b.begin({
      command: `${hide}; until [ -s ../${name} ]; do sleep 0.01; done; echo out`,
      cwd: 'work',
    })
    expect(await endedWithBeats(turn)).toMatchObject({ outcome: 'success', text: 'out' })
    const hidden = Number(readFileSync(join(b.folder, name), 'utf8'))
    const alive = readProcess(hidden)?.zombie === false
    if (alive) process.kill(hidden, 'SIGKILL')
    expect(alive).toBe(false)
    expect(cgroupNames()).toEqual([])
  })

  it('[T1.2] starts no process if its fence was lost before the start', async () => {
    const turn = await b.begin({ command: 'echo started >> started' }, {}, async (agentTurnId) => {
      const text = 'update state.agent_state_head set turn_epoch = turn_epoch + 1 where active_agent_turn_id = $1'
      await b.t.db.query({ text, values: [agentTurnId] })
    })
    expect(() => readFileSync(join(b.folder, 'started'))).toThrow('ENOENT')
    expect(carriers(turn)).toEqual([])
  })
})

it('[T1.6] ends a turn and its processes if its guardians keep dying', async () => {
  const dying = `let heard = 0
    process.stdin.on('data', (data) => {
      for (const line of String(data).trim().split('\\n')) {
        console.log(JSON.stringify({ done: JSON.parse(line).seq }))
        heard += 1
      }
      if (heard >= 2) process.exit(1)
    })`
  const b = await openCommandSetup({ program: ['-e', dying] })
  onTestFinished(() => b.close())
  const done = await b.run({ command: 'setsid sleep 1000 & sleep 1000' })
  expect(done).toMatchObject({ outcome: 'failed', error: 'guardian_lost', taskEvents: 1 })
  expect(done.text).toContain('its guardian died and could not be replaced')
  expect(carriers(done.agent_turn_id!)).toEqual([])
  expect(await b.run({ command: 'echo never' })).toMatchObject({
    outcome: 'failed',
    error: 'guardian_lost',
    text: expect.stringContaining('the guardian is not running'),
  })
})
