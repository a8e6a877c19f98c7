/** Tests the embedded server from outside: creation, rejection, adoption, restart, stop. Every test has its own folder. */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Terminal } from '@bellwether/protocol'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startEmbedded, type Embedded } from '../../src/ports/database/embedded.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { processStart, readPidFile } from '../../src/ports/database/postmaster.js'
import type { Settings } from '../../src/ports/database/settings.js'
import { canBeOrdinary, ordinaryUser } from '../../../../scripts/ordinary-user.js'
import { testFolder } from '../support/postgres.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'

const asRoot = process.getuid?.() === 0
const { uid: nobodyUid = 0 } = ordinaryUser
const childScript = fileURLToPath(new URL('../support/processes/embedded-child.ts', import.meta.url))

let template: string
let folder: string
let dataDir: string
let started: Embedded[]
let children: ChildProcess[]

beforeAll(async () => {
  template = await testFolder()
  const made = await startEmbedded({ dataDir: join(template, 'postgres'), log: quietLog, settings: { fsync: 'off' } })
  await made.stop()
})
afterAll(() => rm(template, { recursive: true, force: true }))

/** A cluster that was made before, for tests that are not about making one. */
async function copyTemplate(): Promise<void> {
  await promisify(execFile)('cp', ['-a', join(template, 'postgres'), dataDir])
}

beforeEach(async () => {
  folder = await testFolder()
  dataDir = join(folder, 'postgres')
  started = []
  children = []
})
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL')
  for (const embedded of started) await embedded.stop()
  const left = await readPidFile(join(dataDir, 'cluster'))
  if (left && (await processStart(left.pid))) await (await startEmbedded({ dataDir, log: quietLog })).stop()
  await rm(folder, { recursive: true, force: true })
})

/** Without fsync, for speed: a killed process loses nothing that it handed to the kernel; only a power cut does. */
async function start(options: { port?: number; settings?: Settings } = {}): Promise<Embedded> {
  const embedded = await startEmbedded({ dataDir, log: quietLog, settings: { fsync: 'off' }, ...options })
  started.push(embedded)
  return embedded
}

interface ChildReport {
  readonly url: string
  readonly pid: number
  readonly adopted: boolean
}

/** A real process of its own, so that it can be killed without its last words. */
async function startInChild(
  uid?: number,
  ...more: readonly string[]
): Promise<{ child: ChildProcess; server: ChildReport }> {
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--conditions=@bellwether/source', childScript, dataDir, ...more],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
      ...(uid !== undefined && { uid, gid: uid, env: { PATH: process.env['PATH'], HOME: folder, TMPDIR: folder } }),
    },
  )
  children.push(child)
  const lines = createInterface({ input: child.stdout! })
  const [line] = (await Promise.race([once(lines, 'line'), once(child, 'exit').then(failed)])) as [string]
  return { child, server: JSON.parse(line) as ChildReport }
}

function failed(): never {
  throw new Error('the child ended before the database was ready')
}

async function ask<Row extends object>(url: string, text: string): Promise<Row[]> {
  const db = await openDatabase({ url, poolSize: 1 })
  try {
    return await db.query<Row>({ text })
  } finally {
    await db.close()
  }
}

/** Whether a process has this text among its arguments. */
async function runsWith(argument: string): Promise<boolean> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  return lines.some((line) => line.split('\0').includes(argument))
}

const gone = (pid: number) =>
  until(`process ${pid} is gone`, async () => ((await processStart(pid)) ? undefined : true))

describe('the first start', () => {
  it('creates a durable, checksummed, private cluster that requires its password', async () => {
    const { url } = await start({ settings: {} })
    const [row] = await ask<Record<string, string>>(
      url,
      `select current_database() as name, pg_encoding_to_char(encoding) as encoding, datlocprovider as provider,
              current_setting('fsync') as fsync, current_setting('data_checksums') as checksums,
              current_setting('listen_addresses') as addresses
         from pg_database where datname = current_database()`,
    )
    expect(row).toEqual({
      name: 'bellwether',
      encoding: 'UTF8',
      provider: 'b',
      fsync: 'on',
      checksums: 'on',
      addresses: '127.0.0.1',
    })
    expect((await stat(join(dataDir, 'cluster', 'bellwether.json'))).mode & 0o777).toBe(0o600)
    expect((await stat(dataDir)).mode & 0o777).toBe(0o700)
    await expect(openDatabase({ url: url.replace(/:[0-9a-f]{48}@/, ':guess@') })).rejects.toMatchObject({
      code: 'database_login',
    })
  })

  it('removes the files of a start that crashed in initdb and leaves no partial files', async () => {
    await mkdir(join(dataDir, 'cluster.new-dead'), { recursive: true })
    await start()
    expect((await readdir(dataDir)).filter((name) => name.startsWith('cluster'))).toEqual(['cluster'])
  })

  it('rejects a folder with other files and does not change it', async () => {
    await mkdir(dataDir)
    await chmod(dataDir, 0o755)
    await writeFile(join(dataDir, 'thesis.txt'), 'years')
    await expect(start()).rejects.toMatchObject({ name: 'Terminal', code: 'folder_not_ours' })
    expect((await stat(dataDir)).mode & 0o777).toBe(0o755)
    expect(await readdir(dataDir)).toEqual(['thesis.txt'])
  })

  it.runIf(asRoot)('names the folder that the server’s account cannot enter', async () => {
    await chmod(folder, 0o700)
    await expect(start()).rejects.toMatchObject({
      code: 'folder_unreachable',
      message: expect.stringContaining(`cannot enter "${folder}"`) as string,
    })
  })

  it.runIf(asRoot && canBeOrdinary)('works for an ordinary user too', async () => {
    await chown(folder, nobodyUid, nobodyUid)
    const { child, server } = await startInChild(nobodyUid)
    expect(await ask(server.url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect((await stat(join(dataDir, 'cluster'))).uid).toBe(nobodyUid)
    child.kill('SIGTERM')
    await once(child, 'exit')
    await gone(server.pid)
  })
})

describe('one process per folder', () => {
  it('rejects a second start and names the process that uses the folder', async () => {
    await copyTemplate()
    const first = await start()
    await expect(start()).rejects.toMatchObject({
      name: 'Terminal',
      code: 'folder_in_use',
      message: expect.stringContaining(`process ${process.pid} `) as string,
    })
    expect(await ask(first.url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  it('lets exactly one of several simultaneous first starts succeed', async () => {
    const outcomes = await Promise.allSettled([start(), start(), start()])
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
    expect(refused.map(({ reason }) => (reason as Terminal).code)).toEqual(['folder_in_use', 'folder_in_use'])
  })
})

describe('a folder lock whose child was killed', () => {
  beforeEach(copyTemplate)

  it('reports an unexpected end, keeps the server running, and lets the next start adopt it', async () => {
    const first = await start()
    process.kill(-(await holderOf(join(dataDir, 'lock'))), 'SIGKILL')
    expect(await first.exited).toEqual({ unexpected: true, reason: 'the folder lock was lost' })
    const second = await start()
    expect(second).toMatchObject({ adopted: true, pid: first.pid })
    await first.stop()
    expect(await ask(second.url, 'select 1 as one')).toEqual([{ one: 1 }])
  })
})

/** The child of this process that holds the lock; it leads a process group of its own. */
async function holderOf(lock: string): Promise<number> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'pid=,args=', '--ppid', String(process.pid)])
  const line = stdout.split('\n').find((each) => each.includes('flock') && each.includes(lock))
  return Number.parseInt(line ?? '', 10)
}

describe('after the parent was killed', () => {
  beforeEach(copyTemplate)

  it('adopts the server that was left running, with its data, and can stop it', async () => {
    const { child, server } = await startInChild()
    await ask(server.url, 'create table kept as select 7 as n')
    child.kill('SIGKILL')
    await once(child, 'exit')
    const adopter = await until('the kernel releases the lock', () => start().catch(inUse))
    expect(adopter).toMatchObject({ adopted: true, pid: server.pid, url: server.url })
    expect(await ask(adopter.url, 'select n from kept')).toEqual([{ n: 7 }])
    await adopter.stop()
    expect(await processStart(server.pid)).toBeUndefined()
  })

  it('replaces an adopted server that must move to another port', async () => {
    const { child, server } = await startInChild()
    child.kill('SIGKILL')
    await once(child, 'exit')
    const port = Number(new URL(server.url).port) === 50_321 ? 50_322 : 50_321
    const moved = await until('the kernel releases the lock', () => start({ port }).catch(inUse))
    expect(moved).toMatchObject({ adopted: false, port })
    expect(await processStart(server.pid)).toBeUndefined()
  })

  it('stops the server if no other process adopts it, even a paused one, and the next start waits for that', async () => {
    for (const paused of [false, true]) {
      const { child, server } = await startInChild(undefined, '0')
      if (paused) process.kill(server.pid, 'SIGSTOP')
      child.kill('SIGKILL')
      await once(child, 'exit')
      await gone(server.pid)
      const next = await start()
      expect(next.adopted).toBe(false)
      await next.stop()
    }
  })

  it('does not create the lock again in a folder that is being removed', async () => {
    const { child } = await startInChild(undefined, '2000')
    child.kill('SIGKILL')
    await once(child, 'exit')
    const lock = join(dataDir, 'lock')
    await rm(lock)
    await until('the script of the lock has ended', async () => ((await runsWith(lock)) ? undefined : true))
    expect(await readdir(dataDir)).not.toContain('lock')
  })

  it('reports the end of an adopted server', async () => {
    const { child, server } = await startInChild()
    child.kill('SIGKILL')
    await once(child, 'exit')
    const adopter = await until('the kernel releases the lock', () => start().catch(inUse))
    process.kill(server.pid, 'SIGKILL')
    expect(await adopter.exited).toMatchObject({ unexpected: true })
  })
})

function inUse(error: unknown): undefined {
  if (!(error instanceof Terminal) || error.code !== 'folder_in_use') throw error
}

describe('after the server was killed', () => {
  beforeEach(copyTemplate)

  it('reports the end, releases the folder, and recovers on the same port at the next start', async () => {
    const first = await start()
    const db = await openDatabase({ url: first.url, poolSize: 2 })
    await db.query({ text: 'create table kept as select 7 as n' })
    process.kill(first.pid, 'SIGKILL')
    expect(await first.exited).toMatchObject({ unexpected: true, reason: 'killed by SIGKILL' })
    await expect(
      until('calls fail', () =>
        db.query({ text: 'select n from kept' }).then(
          () => undefined,
          (error: unknown) => Promise.reject(error as Error),
        ),
      ),
    ).rejects.toMatchObject({ name: 'Retryable', code: 'database_unavailable' })
    const second = await start()
    expect(second.port).toBe(first.port)
    expect(await db.query({ text: 'select n from kept' })).toEqual([{ n: 7 }])
    await db.close()
  })

  it('waits for backends that still use the shared memory', async () => {
    const first = await start()
    const db = await openDatabase({ url: first.url, poolSize: 1 })
    // It uses the processor until the file exists: a session that waits would end with the postmaster.
    const over = join(dataDir, 'cluster', 'over')
    const busy = db.query({ text: `do $$ begin while (pg_stat_file('over', true)).size is null loop end loop; end $$` })
    const seeBusy = `select from pg_stat_activity where query like 'do %' and state = 'active'`
    await until('the session is busy', async () => (await ask(first.url, seeBusy))[0])
    process.kill(first.pid, 'SIGKILL')
    await first.exited
    let isStarted = false
    const starting = start().finally(() => (isStarted = true))
    await until('a start is refused', async () => {
      const log = await readFile(join(dataDir, 'server.log'), 'utf8')
      return log.includes('pre-existing shared memory block') || undefined
    })
    expect(isStarted).toBe(false)
    await writeFile(over, '')
    await busy
    const second = await starting
    expect(await ask(second.url, 'select 1 as one')).toEqual([{ one: 1 }])
    await db.close()
  })

  it('ignores a pid file whose pid now belongs to another program of the same user', async () => {
    const first = await start()
    process.kill(first.pid, 'SIGKILL')
    await first.exited
    const owner = await stat(join(dataDir, 'cluster'))
    const bystander = spawn('cat', [], { uid: owner.uid, gid: owner.gid, stdio: ['pipe', 'ignore', 'ignore'] })
    children.push(bystander)
    await once(bystander, 'spawn')
    const pidFile = join(dataDir, 'cluster', 'postmaster.pid')
    const text = await readFile(pidFile, 'utf8')
    await writeFile(pidFile, text.replace(/^\d+/, String(bystander.pid)))
    const second = await start()
    expect(second.adopted).toBe(false)
    expect(await ask(second.url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(bystander.exitCode).toBeNull()
  })
})

describe('stopping', () => {
  beforeEach(copyTemplate)

  it('leaves no process and releases the folder, also if it is called twice', async () => {
    const first = await start()
    await Promise.all([first.stop(), first.stop()])
    expect(await first.exited).toMatchObject({ unexpected: false })
    expect(await readPidFile(join(dataDir, 'cluster'))).toBeUndefined()
    await gone(first.pid)
    expect((await start()).port).toBe(first.port)
  })

  it('does not wait for open sessions', async () => {
    const first = await start()
    const db = await openDatabase({ url: first.url, poolSize: 1 })
    const slow = db.query({ text: 'select pg_sleep(60)' })
    await until(
      'it runs',
      async () => (await ask(first.url, `select from pg_stat_activity where query ~ 'sleep.60'`))[0],
    )
    const [outcome] = await Promise.allSettled([slow, first.stop()])
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'database_unavailable' } })
    await db.close()
  })
})

describe('a cluster that cannot start', () => {
  beforeEach(copyTemplate)

  it.each([
    ['made by another major version', 'PG_VERSION', '14\n', 'cluster_version'],
    ['copied over from elsewhere', 'bellwether.json', '{"systemIdentifier":"1","password":"x"}', 'folder_not_ours'],
  ])('refuses one %s', async (_title, name, text, code) => {
    await (await start()).stop()
    await writeFile(join(dataDir, 'cluster', name), text)
    await expect(start()).rejects.toMatchObject({ name: 'Terminal', code })
  })

  it('shows the end of the server log and releases the folder', async () => {
    await (await start()).stop()
    const options = { dataDir, log: quietLog, settings: { shared_buffers: 'plenty' } }
    await expect(startEmbedded(options)).rejects.toMatchObject({
      code: 'postgres_failed',
      message: expect.stringContaining('shared_buffers') as string,
    })
    await start()
  })

  it('names the requested port if it is in use', async () => {
    const first = await start()
    const other = startEmbedded({ dataDir: join(folder, 'other'), log: quietLog, port: first.port })
    await expect(other).rejects.toMatchObject({ code: 'port_in_use' })
  })
})
