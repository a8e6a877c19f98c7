/** A local command as the agent: real processes, real files. */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { commandSpawner } from '../../../src/board/dispatch/command-spawner.js'
import { localEvidence } from '../../../src/board/dispatch/evidence/local-evidence.js'
import type { SpawnRequest } from '../../../src/board/ports.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'
import { systemMachine } from '../../../src/ports/disk/machine.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'
import { never } from '../../support/board/dispatcher.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

const ids = uuidv7(systemClock, systemRandom)
let root = ''
beforeEach(async () => {
  root = tempFolder('command')
})

const spawnerOf = (command: string, timeoutMs = 20_000) =>
  commandSpawner({
    root,
    command,
    timeoutMs,
    environment: [],
    disk: systemDisk,
    machine: systemMachine,
    clock: systemClock,
    ids,
    log: quietLog,
  })
const purse = (wallTimeMs: number | null) => ({
  id: 'task:T-1',
  limits: { tokens: null, costMicros: null, wallTimeMs },
  used: { tokens: 0, costMicros: 0, wallTimeMs: 100 },
})
const request = (key: string, prompt = 'do it'): SpawnRequest => ({
  key,
  taskId: 'T-1',
  agent: 'coder',
  prompt,
  purse: purse(null),
  degrade: [],
  degradePolicy: [],
})

async function ran(command: string, prompt?: string, timeoutMs?: number) {
  const spawner = spawnerOf(command, timeoutMs)
  const key = ids.next()
  await spawner.spawn(request(key, prompt), never)
  return spawner.ended(key, never)
}

describe('a command as the agent', () => {
  it('a command gets the prompt on stdin, and its stdout is an object with usage or text', async () => {
    expect(await ran('cat', 'hello\nthere')).toMatchObject({
      status: 'ended',
      outcome: 'success',
      deliverable: { text: 'hello\nthere' },
      tokenUsage: 0,
    })
    const words = `echo thinking; printf '{"summary":"s","usage":{"input_tokens":3,"output_tokens":4}}'`
    expect(await ran(words)).toMatchObject({ deliverable: { summary: 's' }, tokenUsage: 7 })
  })

  it('a failing command is reported with its exit code and the end of its stderr', async () => {
    expect(await ran('echo trouble >&2; exit 3')).toMatchObject({
      outcome: 'failed',
      error: 'the command exited with 3: trouble',
    })
  })

  it('a command runs once per key, even for two spawners, and a key that was never spawned is unknown', async () => {
    const [one, two] = [spawnerOf('echo x >> runs'), spawnerOf('echo y >> runs')]
    const key = ids.next()
    await Promise.all([one.spawn(request(key), never), two.spawn(request(key), never)])
    await one.spawn(request(key), never)
    expect(await two.ended(key, never)).toMatchObject({ status: 'ended', outcome: 'success' })
    expect((await readFile(join(root, 'runs'), 'utf8')).length).toBe(2)
    expect(await one.status(ids.next())).toEqual({ status: 'unknown' })
    await expect(one.status('../../etc')).rejects.toMatchObject({ code: 'bad_key' })
  })

  it('a command ends with all of its processes at its time limit or when it is stopped', async () => {
    const long = 'sh -c "echo \\$\\$ > inner; exec sleep 300" & echo $$ > outer; wait'
    expect(await ran(long, 'x', 700)).toMatchObject({
      outcome: 'timeout',
      error: 'the command took longer than 700 ms',
    })
    const gone = async (name: string) => {
      const pid = Number(await readFile(join(root, name), 'utf8'))
      await until(`${name} is gone`, async () => (systemMachine.process(pid).alive ? undefined : true))
    }
    await gone('inner')
    const spawner = spawnerOf('echo $$ > outer2; sleep 300')
    const key = ids.next()
    await spawner.spawn(request(key), never)
    await until('it began', async () =>
      (await systemDisk.stat(join(root, 'outer2'))) === 'missing' ? undefined : true,
    )
    await spawner.stop(key, 'enough')
    expect(await spawner.status(key)).toMatchObject({ status: 'ended', outcome: 'canceled', error: 'enough' })
    await gone('outer2')
  })

  it('[H7.5] a command that exceeds its wall-time budget is ended while it runs', async () => {
    const spawner = spawnerOf('sleep 300')
    const key = ids.next()
    await spawner.spawn({ ...request(key), purse: purse(600) }, never)
    expect(await spawner.ended(key, never)).toMatchObject({
      outcome: 'failed',
      error: 'budget_exceeded',
      exceededKeys: ['wall_ms'],
    })
  })

  it('a command that writes without end is cut at 1 MB and fails', async () => {
    const ended = await ran('yes')
    expect(ended).toMatchObject({ status: 'ended', outcome: 'failed' })
  })
})

describe('evidence on the disk itself', () => {
  it('local evidence reports files with size and hash, and whether they changed since the token', async () => {
    const evidence = localEvidence(root, ids)
    await writeFile(join(root, 'old.txt'), 'old')
    // One tick of the disk clock apart.
    let since = await evidence.changeToken()
    while ((await evidence.inspect(['old.txt'], since))[0]!.changedSince === true) since = await evidence.changeToken()
    await writeFile(join(root, 'new.txt'), 'abc')
    await writeFile(join(tmpdir(), `outside-${process.pid}`), 'secret')
    onTestFinished(() => rm(join(tmpdir(), `outside-${process.pid}`), { force: true }))
    const { symlink } = await import('node:fs/promises')
    await symlink(join(tmpdir(), `outside-${process.pid}`), join(root, 'link'))
    expect(await evidence.inspect(['new.txt', 'old.txt', 'none', '.', 'link', '../x'], since)).toEqual([
      {
        path: 'new.txt',
        found: 'present',
        from: 'disk',
        size: 3,
        changedSince: true,
        sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
      },
      expect.objectContaining({ path: 'old.txt', found: 'present', changedSince: false }),
      { path: 'none', found: 'missing', from: 'disk' },
      { path: '.', found: 'missing', from: 'disk' },
      { path: 'link', found: 'missing', from: 'disk' },
      { path: '../x', found: 'missing', from: 'disk' },
    ])
  })
})
