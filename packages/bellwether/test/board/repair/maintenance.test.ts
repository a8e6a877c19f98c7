/** Maintenance and alerts on real files and over real HTTP, with a controlled clock. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { mkdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { describe, expect, it, onTestFinished } from 'vitest'
import { makeAlerts, type Alert } from '../../../src/board/dispatch/alerts.js'
import { openBoard } from '../../../src/board/log/board.js'
import { createMaintenance, runMaintenance, type MaintenanceOptions } from '../../../src/board/repair/maintenance.js'
import { LockContention } from '../../../src/board/log/locks/locks.js'
import { countingContention } from '../../../src/board/dispatch/contention.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'
import { systemMachine } from '../../../src/ports/disk/machine.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { removeOldFolders } from '../../../src/ports/disk/remove-old-folders.js'
import { defaultCallPolicy } from '../../../src/ports/retry.js'
import { postJson, webhookUrl } from '../../../src/ports/webhook.js'
import { boardOf, created, makeWorld } from '../../support/board/dispatcher.js'
import { handClock, settle } from '../../support/hand-clock.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'
import { listen } from '../../support/servers/listen.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

const ids = uuidv7(systemClock, systemRandom)
const world = { disk: systemDisk, machine: systemMachine, clock: systemClock, ids, log: quietLog }

async function folder(): Promise<string> {
  const path = tempFolder('maintenance')
  return path
}

async function rootWithTasks(): Promise<string> {
  const root = await folder()
  const board = await openBoard({ root, owner: 'test', clock: systemClock, ids, log: quietLog })
  await board.write(() => [created('T-1'), created('T-2')])
  await board.close()
  return root
}

function maintenanceOn(root: string, change: Partial<MaintenanceOptions> = {}) {
  const raised: Alert[] = []
  const clock = handClock()
  const options: MaintenanceOptions = {
    root,
    ports: world,
    clock,
    log: quietLog,
    alerts: { raise: (alert) => void raised.push(alert) },
    lockCheckMs: 900_000,
    snapshotCheckMs: 86_400_000,
    removeOldRuns: async () => 0,
    removeWorktrees: async () => 0,
    ...change,
  }
  return { maintenance: createMaintenance(options), raised, clock, options }
}

describe('maintenance', () => {
  it('[H4.2] maintenance checks locks every 15 minutes and the snapshot daily, and both at the start', async () => {
    const { maintenance, clock, raised } = maintenanceOn(await rootWithTasks())
    expect(await maintenance.step()).toEqual({
      ran: ['locks', 'snapshot', 'retention', 'worktrees'],
      staleLocks: 0,
      snapshot: 'same',
      removedRuns: 0,
      removedWorktrees: 0,
    })
    const seen: string[] = []
    for (let minute = 1; minute <= 24 * 60; minute += 1) {
      await clock.advance(60_000)
      const { ran } = await maintenance.step()
      if (ran.includes('locks')) seen.push(`locks ${minute}`)
      if (ran.includes('snapshot')) seen.push(`snapshot ${minute}`)
    }
    expect(seen.slice(0, 3)).toEqual(['locks 15', 'locks 30', 'locks 45'])
    expect(seen.filter((line) => line.startsWith('locks')).length).toBe(96)
    expect(seen.filter((line) => line.startsWith('snapshot'))).toEqual(['snapshot 1440'])
    expect(raised).toEqual([])
  })

  it('[H4.2] maintenance alerts on a snapshot that differs from the log, and not on one that is only behind', async () => {
    const root = await rootWithTasks()
    const log = join(root, 'state', 'tasks.jsonl')
    const before = await readFile(log, 'utf8')
    const late = JSON.stringify({ ...JSON.parse(before.split('\n')[0]!), eventId: 'later', taskId: 'T-3' })
    await writeFile(log, `${before}${late}\n`)
    const behind = maintenanceOn(root)
    expect((await behind.maintenance.step()).snapshot).toBe('behind')
    expect(behind.raised).toEqual([])

    const path = join(root, 'state', 'tasks.snapshot.json')
    await writeFile(path, (await readFile(path, 'utf8')).replace('"Do T-2"', '"Do T-9"'))
    const wrong = maintenanceOn(root)
    expect((await wrong.maintenance.step()).snapshot).toBe('mismatch')
    expect(wrong.raised).toMatchObject([{ kind: 'replay_mismatch', details: { diff: { changed: 1 } } }])
    expect(await readFile(log, 'utf8')).toBe(`${before}${late}\n`)
  })

  it('[H4.2] maintenance reports stale locks and removes none', async () => {
    const root = await rootWithTasks()
    const lock = join(root, 'state', 'locks', 'old.lock')
    const old = {
      owner: 'gone',
      pid: 1,
      createdAt: '2020-01-01T00:00:00Z',
      expiresAt: '2020-01-01T00:00:30Z',
      resource: 'tasks',
    }
    await writeFile(lock, JSON.stringify(old))
    const { maintenance, raised } = maintenanceOn(root)
    expect((await maintenance.step()).staleLocks).toBe(1)
    expect(raised).toMatchObject([{ kind: 'stale_locks', details: { locks: [{ owner: 'gone', reason: 'expired' }] } }])
    expect(await readFile(lock, 'utf8')).toBe(JSON.stringify(old))
  })

  it('a maintenance job that fails raises an alert, and the others run', async () => {
    const root = await rootWithTasks()
    await rm(join(root, 'state', 'tasks.jsonl'))
    const { maintenance, raised } = maintenanceOn(root)
    expect((await maintenance.step()).ran).toEqual(['locks', 'snapshot', 'retention', 'worktrees'])
    expect(raised).toMatchObject([{ kind: 'maintenance_failed', details: { job: 'snapshot' } }])
  })

  it('maintenance runs in a loop until its signal fires', async () => {
    const { maintenance, clock, options } = maintenanceOn(await rootWithTasks())
    let steps = 0
    const counted = { step: async () => ((steps += 1), maintenance.step()) }
    const stop = new AbortController()
    const ended = runMaintenance(counted, options, stop.signal)
    await until('the first step', async () => (clock.sleepers > 0 ? true : undefined))
    await clock.advance(60_000)
    await until('the second step', async () => (steps === 2 && clock.sleepers > 0 ? true : undefined))
    stop.abort()
    expect(await ended).toBeUndefined()
  })

  it('retention removes the folders of old runs, except open and recent ones', async () => {
    const parent = await folder()
    for (const name of ['old', 'open', 'young']) await mkdir(join(parent, name, 'deep'), { recursive: true })
    for (const name of ['old', 'open']) await utimes(join(parent, name), 1_000, 1_000)
    expect(await removeOldFolders(parent, 2_000_000, (name) => name === 'open')).toEqual(['old'])
    expect(await removeOldFolders(join(parent, 'none'), 1, () => false)).toEqual([])
  })
})

describe('contention', () => {
  it('[H4.2] three lock timeouts within ten minutes raise an alert; two, or three within an hour, do not', async () => {
    const made = makeWorld()
    const raised: Alert[] = []
    const inner = {
      ...boardOf(made),
      write: () => Promise.reject(new LockContention(3_000, 'another process holds it')),
    }
    const once = { ...defaultCallPolicy.retry, maxAttempts: 1 }
    const ports = {
      clock: made.clock,
      random: { next: () => 0.5 },
      alerts: { raise: (one: Alert) => void raised.push(one) },
    }
    const { board, contention } = countingContention(inner, { ...ports, retry: once })
    const fail = () => expect(board.write(() => [])).rejects.toMatchObject({ code: 'lock_contention' })
    for (let hour = 0; hour < 3; hour += 1) {
      await fail()
      await made.clock.advance(599_000)
    }
    await made.clock.advance(600_000)
    await fail()
    await fail()
    expect(raised).toEqual([])
    await fail()
    expect(raised).toMatchObject([{ kind: 'lock_contention', details: { timeouts: 3 } }])
    // The count starts again: the next alert needs three more.
    await fail()
    await fail()
    expect(raised).toHaveLength(1)
    await fail()
    expect(raised).toHaveLength(2)
    expect(contention.timeouts).toBe(9)
  })

  it('[H1.3] a write that did not get the lock is retried and decided on the state at that time', async () => {
    const made = makeWorld()
    const real = boardOf(made)
    let busy = 2
    const inner = {
      ...real,
      write: (decide: Parameters<typeof real.write>[0]) =>
        (busy -= 1) >= 0 ? Promise.reject(new LockContention(3_000, 'another process holds it')) : real.write(decide),
    }
    const ports = { clock: made.clock, random: { next: () => 0.5 }, alerts: { raise: () => undefined } }
    const { board, contention } = countingContention(inner, { ...ports, retry: defaultCallPolicy.retry })
    const writing = board.write(() => [created('T-1')])
    await settle()
    await made.clock.advance(500)
    await made.clock.advance(1_000)
    expect((await writing).length).toBe(1)
    expect(contention.timeouts).toBe(2)
  })

  it('the error of a write that never got the lock names the time of all tries', async () => {
    const made = makeWorld()
    const lockWaitMs = 3_000
    const busy = () => Promise.reject(new LockContention(lockWaitMs, 'old (pid 7 on far) holds it'))
    const inner = { ...boardOf(made), write: () => made.clock.sleep(lockWaitMs).then(busy) }
    const ports = { clock: made.clock, random: { next: () => 0.5 }, alerts: { raise: () => undefined } }
    const { board } = countingContention(inner, { ...ports, retry: defaultCallPolicy.retry })
    const failed = expect(board.write(() => [])).rejects.toThrow(
      'Cannot lock the board: waited 10.5 s, but old (pid 7 on far) holds it.',
    )
    for (const ms of [3_000, 500, 3_000, 1_000, 3_000]) {
      await settle()
      await made.clock.advance(ms)
    }
    await failed
  })
})

async function openHook(
  answer: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<string> {
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (data: Buffer) => (body += data.toString()))
    request.on('end', () => answer(request, response, body))
  })
  const port = await listen(server)
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${port}/hook`
}

function alertsTo(url: string, clock = handClock()) {
  const calls = { ...defaultCallPolicy, timeoutMs: { ...defaultCallPolicy.timeoutMs } }
  const alerts = makeAlerts({
    root: '/r',
    clock,
    random: { next: () => 0.5 },
    log: quietLog,
    calls,
    send: (message, signal) => postJson(url, message, signal),
  })
  return { alerts, clock }
}

describe('alerts', () => {
  it('[H4.2] alerts are logged, counted and posted; a failing server is retried with the pauses of the policy', async () => {
    const bodies: string[] = []
    const url = await openHook((_request, response, body) => {
      bodies.push(body)
      response.writeHead(bodies.length < 3 ? 503 : 204).end()
    })
    const { alerts, clock } = alertsTo(url)
    alerts.raise({ kind: 'replay_mismatch', text: 'wrong', details: { changed: 1 } })
    for (const [tries, pauseMs] of [
      [1, 500],
      [2, 1_000],
    ] as const) {
      await until(`try ${tries}`, async () => (bodies.length === tries && clock.sleepers === 1 ? true : undefined))
      await settle()
      await clock.advance(pauseMs)
    }
    await alerts.settled()
    expect(JSON.parse(bodies[2]!)).toMatchObject({
      kind: 'replay_mismatch',
      text: 'wrong',
      root: '/r',
      details: { changed: 1 },
    })
    expect([alerts.counts.get('replay_mismatch'), alerts.counts.get('unsent')]).toEqual([1, 0])
  })

  it('[H4.2] after its timeouts a server that never answers is given up, and the next alert is sent', async () => {
    let hang = true
    const seen: string[] = []
    const url = await openHook((_request, response, body) => {
      seen.push((JSON.parse(body) as Alert).text)
      if (!hang) response.writeHead(200).end('thanks')
    })
    const { alerts, clock } = alertsTo(url)
    alerts.raise({ kind: 'escalated', text: 'first' })
    alerts.raise({ kind: 'escalated', text: 'second' })
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      await until(`try ${attempt}`, async () => (seen.length === attempt ? true : undefined))
      if (attempt === 3) hang = false
      await clock.advance(10_000)
      await clock.advance(2_000)
    }
    await alerts.settled()
    expect(seen).toEqual(['first', 'first', 'first', 'second'])
    expect([...alerts.counts].filter(([, count]) => count > 0)).toEqual([
      ['escalated', 2],
      ['unsent', 1],
    ])
  })

  it('a rejected alert is not retried, and an invalid webhook URL is reported at once', async () => {
    let calls = 0
    const url = await openHook((_request, response) => {
      calls += 1
      response.writeHead(403).end()
    })
    const { alerts } = alertsTo(url)
    alerts.raise({ kind: 'escalated', text: 'x' })
    await alerts.settled()
    expect([calls, alerts.counts.get('unsent')]).toEqual([1, 1])
    for (const wrong of ['nope', 'ftp://a/b', 'file:///etc/passwd'])
      expect(() => webhookUrl(wrong, 'notify', 'webhook_url')).toThrow('Invalid webhook_url')
  })
})
