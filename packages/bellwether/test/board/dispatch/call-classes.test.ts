/**
 * Every call of the board that leaves its own memory, with its class (S2 §1): first where the source makes it, then what happens when
 * it hangs. The tables are complete by their types: a new method of a port needs a row here.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { makeAlerts } from '../../../src/board/dispatch/alerts.js'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import type { DispatcherOptions, Knowledge } from '../../../src/board/dispatch/dispatcher.js'
import { abort } from '../../../src/board/tasks/operator-commands.js'
import type { Evidence, Spawner } from '../../../src/board/ports.js'
import { boundedDisk } from '../../../src/ports/disk/bounded-disk.js'
import { systemDisk, type Disk, type LogFile } from '../../../src/ports/disk/disk.js'
import { openWorktrees } from '../../../src/ports/git/worktrees.js'
import { defaultCallPolicy, type CallKind } from '../../../src/ports/retry.js'
import {
  boardOf,
  created,
  dispatcherOf,
  makeWorld,
  noCaches,
  put,
  type World,
  never,
} from '../../support/board/dispatcher.js'
import { handClock, settle } from '../../support/hand-clock.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'
import { add, boardOf as openedBoard, testRoot } from '../log/test-root.js'

interface Ports {
  readonly spawner: Spawner
  readonly evidence: Evidence
  readonly knowledge: Knowledge
}
/** `wait`: it ends with the turn or with its signal, so it has no timeout. */
const classes: { readonly [P in keyof Ports]: Readonly<Record<keyof Ports[P], CallKind | 'wait'>> } = {
  spawner: {
    kernel: 'command_routing',
    spawn: 'command_routing',
    status: 'command_routing',
    stop: 'command_routing',
    missingAgents: 'command_routing',
    hasAgents: 'command_routing',
    workspaceOf: 'command_routing',
    ended: 'wait',
  },
  evidence: { changeToken: 'local_state', inspect: 'synthesis', changedFiles: 'local_state' },
  knowledge: { hints: 'local_state', backfill: 'local_state' },
}
const kindOf = new Map<string, string>([
  ['loadPolicies', 'local_state'],
  ['openPolicies', 'local_state'],
  ['markdownReport', 'synthesis'],
  ['post', 'external_message'],
  ...Object.entries(classes).flatMap(([port, methods]) =>
    Object.entries(methods).map(([method, kind]) => [`${port}.${method}`, kind] as const),
  ),
])

describe('the calls in the source', () => {
  const source = join(import.meta.dirname, '../../../src')
  const files = ['board', 'runtime', 'cli', 'http'].flatMap((folder) =>
    readdirSync(join(source, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
      .map((name) => join(folder, name))
      // Its callers bound what it reads.
      .filter((name) => name !== 'board/policies/load.ts'),
  )
  // Not a definition, which `function` or `async` precedes.
  const pattern =
    /(?<!function |async )\b((?:spawner|evidence|knowledge)\.\w+|(?:load|open)Policies|markdownReport|post(?=\(message))\(/g

  const kindIn = (text: string): string | undefined => /kind: '(\w+)'/.exec(text)?.[1]

  /** The text of every `retryCall(…)` with its range, and its class: inline, or in the constant above it. */
  function retriesIn(text: string) {
    return [...text.matchAll(/\bretryCall\(/g)].map(({ index: start }) => {
      let depth = 0
      let end = start
      do {
        end = text.slice(end + 1).search(/[()]/) + end + 1
        depth += text[end] === '(' ? 1 : -1
      } while (depth > 0)
      const call = text.slice(start, end)
      const name = /^retryCall\(\s*[\w.]+,\s*(\w+),/.exec(call)?.[1]
      const constants = [...text.slice(0, start).matchAll(new RegExp(`const ${name} = {[^}]*}`, 'g'))]
      return { start, end, call, kind: kindIn(call) ?? kindIn(constants.at(-1)?.[0] ?? '') }
    })
  }

  /** The class of the `retryCall` that makes the call at `index`, itself or through a function that it gets by name. */
  function classAt(text: string, index: number): string | undefined {
    const retries = retriesIn(text)
    const around = retries.find(({ start, end }) => start < index && index < end)
    if (around !== undefined) return around.kind
    const before = text.slice(0, text.indexOf('(', index) + 1)
    const maker = [...before.matchAll(/const (\w+) = (?:async |openPolicies)?\(/g)].at(-1)?.[1]
    return retries.find(({ call }) => maker !== undefined && new RegExp(`,\\s*${maker},`).test(call))?.kind
  }

  it('[H1.4] every call that belongs to a class is made under the timeout and retries of that class', () => {
    const sites: string[] = []
    const wrong: string[] = []
    for (const name of files) {
      const text = readFileSync(join(source, name), 'utf8')
      for (const found of text.matchAll(pattern)) {
        const site = found[1]!
        const kind = kindOf.get(site)
        if (kind === undefined) continue
        sites.push(site)
        const actual = classAt(text, found.index)
        if (kind !== 'wait' && actual !== kind)
          wrong.push(`${name}: ${site} is ${actual ?? 'in no class'}, not ${kind}`)
      }
    }
    expect(wrong).toEqual([])
    expect([...new Set(sites)].sort()).toEqual([...kindOf.keys()].sort())
    // The disk of an open board is bounded where it is composed.
    const disks = files
      .filter((name) => name.startsWith('runtime') || name.startsWith('http'))
      .flatMap((name) => [...readFileSync(join(source, name), 'utf8').matchAll(/.*(?<!import {.*)\bsystemDisk\b.*/g)])
    expect(disks.map(([line]) => line.trim())).toEqual([expect.stringContaining('boundedDisk(systemDisk, ')])
  })
})

describe('a call that hangs', () => {
  type Story = (world: World, ports: Partial<DispatcherOptions>) => Promise<unknown>
  const dispatched: Story = async (world, ports) => dispatch(dispatcherOf(world, ports), 'T-1', never)
  const stopped: Story = async (world, ports) => {
    world.kernel.script = null
    const dispatcher = dispatcherOf(world, ports)
    await autopilotStep(dispatcher, noCaches)
    await abort({ board: boardOf(world), nowMs: () => world.clock.wallMs() }, 'T-1', { by: 'ann' })
    return autopilotStep(dispatcher, noCaches)
  }
  const failed: Story = async (world, ports) => {
    world.kernel.script = () => ({ outcome: 'failed', error: 'no' })
    return dispatch(dispatcherOf(world, ports), 'T-1', never)
  }
  const hinted: Story = async (world, ports) => {
    await put(world, created('T-2', { assigneeHint: 'ann' }))
    const dispatcher = dispatcherOf(world, ports)
    await dispatcher.board.sync()
    return dispatch(dispatcher, 'T-2', never)
  }
  const noWorktrees = openWorktrees({ root: '/nonexistent', folder: '/nonexistent', timeoutMs: 1_000 })
  const stories: Readonly<Record<string, Story>> = {
    'spawner.stop': stopped,
    'spawner.missingAgents': hinted,
    'spawner.hasAgents': (world, ports) => autopilotStep(dispatcherOf(world, ports), noCaches),
    'knowledge.backfill': failed,
    'evidence.changedFiles': failed,
    'spawner.workspaceOf': (world, ports) => dispatched(world, { ...ports, worktrees: () => noWorktrees }),
  }

  /** When the tries of the call began. */
  async function triesOf(world: World, make: (hang: () => Promise<never>) => Promise<unknown>): Promise<number[]> {
    const starts: number[] = []
    const going = make(() => {
      starts.push(world.clock.monotonicMs())
      return new Promise<never>(() => undefined)
    }).catch(() => 'the story may fail')
    for (let second = 0; second < 100 && starts.length < 4; second += 1) await world.clock.advance(1_000)
    void going
    return starts.slice(0, 3).map((at) => at - starts[0]!)
  }

  /** Each try ends at the timeout of its class; the pauses are 500 ms and 1 s. */
  const expected = (kind: CallKind) => {
    const timeoutMs = defaultCallPolicy.timeoutMs[kind]
    return [0, timeoutMs + 500, 2 * timeoutMs + 1_500]
  }

  const calls = [...kindOf].filter(([name, kind]) => name.includes('.') && kind !== 'wait') as [string, CallKind][]
  it.each(calls)('[H1.1] [H1.4] %s ends at the timeout of %s, and is tried three times', async (name, kind) => {
    const world = makeWorld()
    await put(world, created('T-1'))
    world.files.set('a.txt', 'present')
    world.kernel.script = () => ({ deliverable: { summary: 's', files: ['a.txt'] } })
    const [port, method] = name.split('.') as [keyof Ports, string]
    const tries = await triesOf(world, (hang) => {
      const real = dispatcherOf(world)[port]
      return (stories[name] ?? dispatched)(world, { [port]: { ...real, [method]: hang } })
    })
    expect(tries).toEqual(expected(kind))
  })

  it('[H1.1] [H1.4] post ends at the timeout of external_message, and is tried three times', async () => {
    const world = makeWorld()
    const tries = await triesOf(world, async (hang) => {
      const common = { clock: world.clock, random: { next: () => 0.5 }, log: quietLog, calls: defaultCallPolicy }
      const alerts = makeAlerts({ ...common, send: hang })
      alerts.raise({ kind: 'escalated', text: 'x' })
      await alerts.settled()
    })
    expect(tries).toEqual(expected('external_message'))
  })
})

describe('a disk that hangs', () => {
  const timeoutMs = defaultCallPolicy.timeoutMs.local_state
  const bytes = Buffer.from('x')
  const onDisk: Readonly<Record<Exclude<keyof Disk, 'openLog'>, (disk: Disk) => Promise<unknown>>> & {
    readonly openLog: (disk: Disk) => Promise<unknown>
  } = {
    openLog: (disk) => disk.openLog('a', 'append'),
    read: (disk) => disk.read('a', 10),
    stat: (disk) => disk.stat('a'),
    list: (disk) => disk.list('a'),
    createExclusive: (disk) => disk.createExclusive('a', 'b', bytes),
    writeDraft: (disk) => disk.writeDraft('a', [bytes]),
    replace: (disk) => disk.replace('a', 'b'),
    move: (disk) => disk.move('a', 'b'),
    link: (disk) => disk.link('a', 'b'),
    remove: (disk) => disk.remove('a'),
    makeFolder: (disk) => disk.makeFolder('a'),
    realPath: (disk) => disk.realPath('a'),
  }
  const onFile: Readonly<Record<keyof LogFile, (file: LogFile) => Promise<unknown>>> = {
    size: (file) => file.size(),
    read: (file) => file.read(bytes, 0),
    append: (file) => file.append(bytes),
    flush: (file) => file.flush(),
    identity: (file) => file.identity(),
    close: (file) => file.close(),
  }
  const hang = () => new Promise<never>(() => undefined)
  const deafFile = Object.fromEntries(Object.keys(onFile).map((name) => [name, hang])) as unknown as LogFile
  const deafDisk = Object.fromEntries(Object.keys(onDisk).map((name) => [name, hang])) as unknown as Disk

  it('[H1.1] [H1.4] every call of the disk ends at the timeout of local state', async () => {
    const clock = handClock()
    const disk = boundedDisk(deafDisk, { clock, timeoutMs })
    const file = (await boundedDisk({ ...deafDisk, openLog: async () => deafFile }, { clock, timeoutMs }).openLog(
      'a',
      'append',
    )) as LogFile
    const ended: string[] = []
    const watch = (name: string, work: Promise<unknown>) =>
      work.catch((error: unknown) => ended.push(`${name} ${(error as { code: string }).code}`))
    for (const [name, call] of Object.entries(onDisk)) void watch(name, call(disk))
    for (const [name, call] of Object.entries(onFile)) void watch(`file.${name}`, call(file))
    await clock.advance(timeoutMs - 1)
    expect(ended).toEqual([])
    await clock.advance(1)
    await settle()
    const names = [...Object.keys(onDisk), ...Object.keys(onFile).map((name) => `file.${name}`)]
    expect(ended.sort()).toEqual(names.map((name) => `${name} timeout`).sort())
  })

  it('[H1.4] a large file gets the timeout once more per 32 MiB', async () => {
    const clock = handClock()
    const slow: Disk = {
      ...deafDisk,
      writeDraft(_draft, chunks) {
        for (const chunk of chunks) expect(chunk.length).toBe(2 ** 25)
        return hang()
      },
    }
    const writing = boundedDisk(slow, { clock, timeoutMs }).writeDraft('a', [Buffer.alloc(2 ** 25)])
    let ended = false
    writing.catch(() => (ended = true))
    await clock.advance(2 * timeoutMs - 1)
    expect(ended).toBe(false)
    await clock.advance(1)
    await expect(writing).rejects.toMatchObject({ code: 'timeout' })
  })

  it('[H1.4] a board whose disk hangs fails the write in time, and goes on when the disk answers', async () => {
    const root = await testRoot()
    const clock = handClock()
    let hangs: 'append' | 'read' | undefined
    const hangOnce = <T>(what: typeof hangs, work: () => Promise<T>): Promise<T> => {
      if (hangs !== what) return work()
      hangs = undefined
      return hang()
    }
    const openLog: Disk['openLog'] = async (path, access) => {
      const file = await systemDisk.openLog(path, access)
      if (file === 'missing') return file
      return {
        ...file,
        append: (lines) => hangOnce('append', () => file.append(lines)),
        read: (buffer, position) => hangOnce('read', () => file.read(buffer, position)),
      }
    }
    const board = await openedBoard(root, { disk: boundedDisk({ ...systemDisk, openLog }, { clock, timeoutMs }) })
    await board.write(() => [add('T-1')])
    for (const what of ['append', 'read'] as const) {
      hangs = what
      const stuck = board.write(() => [add(`stuck-${what}`)])
      const outcome = stuck.then(
        () => 'written',
        (error: unknown) => (error as { code: string }).code,
      )
      await until(`the ${what} to hang`, async () => (hangs === undefined ? true : undefined))
      await clock.advance(timeoutMs)
      expect(await outcome).toBe('timeout')
      await board.write(() => [add(`after-${what}`)])
    }
    // The lines of the second stuck write were on disk before its read hung.
    expect([...board.state.tasks.keys()]).toEqual(['T-1', 'after-append', 'stuck-read', 'after-read'])
    expect((await root.lines()).length).toBe(4)
  })
})
