import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { beforeEach, describe, expect, it } from 'vitest'
import { uuidv7 } from '../../../src/ports/ids.js'
import { runCommand, type CommandRequest } from '../../../src/ports/processes/run-command.js'
import { manualTimeout } from '../../support/manual-timeout.js'
import { until } from '../../support/until.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

let root: string
beforeEach(() => {
  root = tempFolder('command')
})

const ports = { clock: systemClock, ids: uuidv7(systemClock, systemRandom) }
const run = (command: string | readonly string[], changes: Partial<CommandRequest> = {}, own = ports) =>
  runCommand({ command, root, timeoutMs: 240_000, ...changes }, own)

/** Alive, and not a zombie. */
function alive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch (error) {
    if (error instanceof Error && 'code' in error) return false
    throw error
  }
}
const pidIn = (name: string) =>
  until(
    name,
    async () => Number(existsSync(join(root, name)) ? readFileSync(join(root, name), 'utf8') : '') || undefined,
  )
const gone = (pid: number) => until(`${pid} is gone`, async () => (alive(pid) ? undefined : true))

describe('verify commands', () => {
  it('a verify command runs in the root and reports its exit and the end of its output', async () => {
    expect(await run('pwd; echo oops >&2; exit 3')).toMatchObject({
      exitCode: 3,
      signal: null,
      timedOut: false,
      output: expect.stringContaining('oops'),
    })
    expect(await run(['printf', '%s', '$HOME;*'])).toMatchObject({ exitCode: 0, output: '$HOME;*' })
    expect(await run('kill -9 $$')).toMatchObject({ exitCode: null, signal: 'SIGKILL', timedOut: false })
    const { output } = await run('head -c 3000000 /dev/zero | tr "\\0" a; echo END')
    expect(output.length).toBeLessThanOrEqual(16_384)
    expect(output.endsWith('aEND\n')).toBe(true)
  })

  it('a verify command ends at its time limit with all of its processes, including those that left its group or ignore SIGTERM', async () => {
    const script =
      'trap "" TERM; (trap "" TERM; echo $BASHPID >child; exec sleep 300) & setsid sh -c "echo \\$\\$ >far; exec sleep 300" & sleep 300'
    const timeoutMs = 600_000
    const timeout = manualTimeout(timeoutMs)
    const result = run(['bash', '-c', script], { timeoutMs }, { ...ports, clock: timeout.clock })
    const [child, far] = [await pidIn('child'), await pidIn('far')]
    timeout.elapse()
    expect(await result).toMatchObject({ exitCode: null, timedOut: true })
    await gone(child)
    await gone(far)
  })

  it('after a verify command has passed, its background processes are ended without waiting for them', async () => {
    // The second cleared its environment and is found by its process group only.
    for (const child of ['sleep 300', 'env -i sleep 300']) {
      const result = await run(`${child} & echo $! >child; exit 0`)
      expect(result).toMatchObject({ exitCode: 0, timedOut: false })
      await gone(await pidIn('child'))
    }
  })

  it('a verify command ends when it is aborted', async () => {
    const stop = new AbortController()
    const result = run('echo $$ >child; exec sleep 300', { signal: stop.signal })
    const child = await pidIn('child')
    stop.abort()
    expect(await result).toMatchObject({ exitCode: null, timedOut: false, failure: 'the command was aborted' })
    await gone(child)
    expect(await run('echo x >late', { signal: stop.signal })).toMatchObject({ failure: 'the command was aborted' })
    expect(existsSync(join(root, 'late'))).toBe(false)
  })

  it('a verify command sees only the allowed environment', async () => {
    process.env['BELLWETHER_TEST_SECRET'] = 'hunter2'
    process.env['BELLWETHER_TEST_OPEN'] = 'yes'
    try {
      const { output } = await run('env', { environment: ['BELLWETHER_TEST_OPEN'] })
      expect(output).toContain('BELLWETHER_TEST_OPEN=yes')
      expect(output).toContain('PATH=')
      expect(output).not.toContain('hunter2')
    } finally {
      delete process.env['BELLWETHER_TEST_SECRET']
      delete process.env['BELLWETHER_TEST_OPEN']
    }
  })

  it('a verify command runs only in folders of the root', async () => {
    mkdirSync(join(root, 'sub'))
    symlinkSync('sub', join(root, 'near'))
    symlinkSync('/tmp', join(root, 'far'))
    for (const cwd of ['sub', './sub', 'near']) expect((await run('pwd -P', { cwd })).output.trim()).toMatch(/\/sub$/)
    const escaped = `${root}-escaped`
    for (const cwd of ['..', '/tmp', 'far', 'sub/../..', 'nowhere', 'a\0b']) {
      const result = await run(['touch', escaped], { cwd })
      expect([cwd, result.exitCode, typeof result.failure]).toEqual([cwd, null, 'string'])
    }
    const ran = existsSync(escaped)
    rmSync(escaped, { force: true })
    expect(ran).toBe(false)
  })

  it('a command that cannot start is reported as a result', async () => {
    for (const command of [['/no/such/program'], [], [''], ['x\0y'], root] as const)
      expect([command, (await run(command)).exitCode === 0]).toEqual([command, false])
    expect(await run(['/no/such/program'])).toMatchObject({ failure: expect.stringContaining('ENOENT') })
  })
})
