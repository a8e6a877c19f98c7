/**
 * The stories. Each prepares its agents, spawns its actors and names the invariants that hold at its end. Random seeds play `fleet`; the other
 * stories are small enough to crash at every statement, or made for one hazard.
 */
import { defined } from '@bellwether/base'
import { putAgents, setLimits } from '../src/kernel/verbs/roster.js'
import {
  client,
  guard,
  joiner,
  lateWorker,
  observer,
  program,
  project,
  reader,
  relay,
  target,
  timing,
  toolHost,
  worker,
  type Shelf,
  type Wanted,
} from './actors.js'
import { noFaults, type Invariant, type Stage } from './engine/index.js'
import {
  always,
  culpritsFail,
  everyTurnSucceeds,
  holdings,
  nobodyDied,
  oneProbePerWindow,
  settled,
  settledHoldings,
} from './invariants.js'
import { races } from './races.js'
import { approvalStory } from './approvals.js'
import { scheduleStory } from './schedules.js'
import type { Story } from './story.js'

async function prepare(stage: Stage, agents: readonly string[]): Promise<void> {
  await setLimits(stage.db, { turnDeadlineSeconds: 1_800, maxRecursionDepth: 20 })
  await putAgents(
    stage.db,
    stage.ids,
    agents.map((agentId) => ({ projectId: project, agentId, workerTarget: target })),
  )
}

const daemon = { daemon: true, restart: true }

interface Actors {
  readonly agents: readonly string[]
  readonly clients: Readonly<Record<string, readonly Wanted[]>>
  /** A client with a worker in its process. */
  readonly program?: readonly Wanted[]
  readonly workers?: number
  readonly guards?: number
  readonly guard?: Parameters<typeof guard>[0]
  readonly hosts?: number
  readonly relays?: number
  /** PMOs that join batches; with them the invariants of batches and budgets hold. */
  readonly joiners?: number
  readonly readers?: boolean
  readonly concurrency?: number
  /** The only worker dies and is not restarted; another one starts after this time. */
  readonly absentMs?: number
}

function story(actors: Actors, extra: readonly Invariant[] = [], plan?: Story['plan']): Story {
  const { workers = 1, guards = 1, hosts = 0, relays = 0, joiners = 0, readers = false } = actors
  const names = (name: string, count: number) => Array.from({ length: count }, (_, index) => `${name}${index + 1}`)
  const fibres = [
    ...Object.keys(actors.clients),
    ...(actors.program === undefined ? [] : ['program']),
    ...names('worker', workers),
    ...names('guard', guards),
    ...names('host', hosts),
    ...names('relay', relays),
    ...names('joiner', joiners),
  ]
  const unread = settled.filter(
    ({ name }) => (readers || !name.includes('seen')) && (relays > 0 || !name.includes('published')),
  )
  return {
    fibres,
    yields: 150,
    always: joiners > 0 ? [...always, ...holdings] : always,
    ...defined({ plan }),
    atEnd: [...unread, ...(joiners > 0 ? settledHoldings : []), ...extra],
    async scenario(stage) {
      const shelf: Shelf = { stored: [] }
      await prepare(stage, actors.agents)
      for (const [name, wanted] of Object.entries(actors.clients)) stage.spawn(name, client(wanted), { restart: true })
      if (actors.program !== undefined) stage.spawn('program', program(actors.program), daemon)
      for (const name of names('worker', workers)) {
        const restart = actors.absentMs === undefined
        stage.spawn(name, worker(defined({ concurrency: actors.concurrency })), { daemon: true, restart })
      }
      if (actors.absentMs !== undefined) stage.spawn('late', lateWorker(actors.absentMs), daemon)
      for (const name of names('guard', guards)) stage.spawn(name, guard(actors.guard), daemon)
      for (const name of names('host', hosts)) stage.spawn(name, toolHost, daemon)
      for (const name of names('joiner', joiners)) stage.spawn(name, joiner, daemon)
      for (const name of names('relay', relays)) stage.spawn(name, relay(shelf), daemon)
      if (readers) stage.spawn('reader', reader, { daemon: true })
      const all = [...Object.values(actors.clients), actors.program ?? []]
      const keys = [...new Set(all.flatMap((wanted) => wanted.map(({ key }) => key)))]
      stage.spawn('observer', observer(keys, shelf))
    },
  }
}

export const stories = {
  fleet: story({
    agents: ['ann', 'bob', 'cid'],
    clients: {
      client1: [
        { agentId: 'ann', key: 'a1', script: { writes: 1 } },
        { agentId: 'bob', key: 'b1', script: { tools: ['answers', 'twice'] } },
        { agentId: 'ann', key: 'a2', script: { tools: ['answers', 'silent'] } },
      ],
      client2: [
        { agentId: 'ann', key: 'a3', stop: true },
        { agentId: 'cid', key: 'c1', script: { tools: ['terminates'] } },
        { agentId: 'bob', key: 'b2', script: { workMs: 30_000, writes: 1 } },
      ],
    },
    workers: 2,
    guards: 2,
    hosts: 2,
    relays: 2,
    readers: true,
  }),
  plain: story({
    agents: ['ann'],
    clients: {
      client1: [
        { agentId: 'ann', key: 'a1', script: { writes: 1 } },
        { agentId: 'ann', key: 'a2' },
      ],
    },
  }),
  tools: story({
    agents: ['ann'],
    clients: { client1: [{ agentId: 'ann', key: 'a1', script: { tools: ['answers', 'answers'] } }] },
    hosts: 2,
  }),
  'late and duplicate results': story({
    agents: ['ann'],
    clients: { client1: [{ agentId: 'ann', key: 'a1', script: { tools: ['twice', 'terminates'] } }] },
    workers: 2,
    hosts: 1,
  }),
  'tool timeout': story({
    agents: ['ann'],
    clients: { client1: [{ agentId: 'ann', key: 'a1', script: { tools: ['answers', 'silent'] } }] },
    hosts: 1,
  }),
  stop: story({
    agents: ['ann'],
    clients: {
      client1: [{ agentId: 'ann', key: 'a1', script: { workMs: 1_000, writes: 2 }, stop: true }],
      client2: [{ agentId: 'ann', key: 'a2', script: {}, stop: true }],
    },
  }),
  'cancel races a lease': story({
    agents: ['ann'],
    clients: {
      client1: [
        { agentId: 'ann', key: 'a1' },
        { agentId: 'ann', key: 'a2', stop: true },
      ],
      client2: [{ agentId: 'ann', key: 'a3' }],
    },
  }),
  'a program with a worker of its own': story({
    agents: ['ann', 'bob'],
    clients: { client1: [{ agentId: 'ann', key: 'a1' }] },
    program: [
      { agentId: 'ann', key: 'a2', script: { writes: 1 } },
      { agentId: 'bob', key: 'b1', script: { tools: ['answers'] } },
      { agentId: 'ann', key: 'a3', stop: true },
    ],
    hosts: 1,
    readers: true,
  }),
  'an enqueue claims for its worker': story(
    {
      agents: ['ann', 'bob'],
      clients: {},
      program: ['ann', 'bob', 'ann'].map((agentId, at) => ({ agentId, key: `${agentId}${at}` })),
      workers: 0,
    },
    [nobodyDied],
    () => noFaults,
  ),
  'dispatch timeout': story({
    agents: ['ann'],
    clients: {
      client1: [
        { agentId: 'ann', key: 'a1' },
        { agentId: 'ann', key: 'a2' },
      ],
    },
    workers: 0,
    guards: 2,
    // No worker ever comes: the target keeps its turns for this long.
    guard: { maxQueueSeconds: timing.dispatchedTimeoutSeconds },
  }),
  'reap and reclaim': story({
    agents: ['ann', 'bob'],
    clients: {
      client1: [
        { agentId: 'ann', key: 'a1', script: { writes: 3 } },
        { agentId: 'bob', key: 'b1', script: { workMs: 30_000, writes: 2 } },
      ],
    },
    workers: 2,
  }),
  'a turn kills its workers': story(
    {
      agents: ['ann', 'bob', 'cid', 'poison'],
      clients: {
        client1: [
          { agentId: 'ann', key: 'a1', script: { workMs: 100_000 } },
          { agentId: 'bob', key: 'b1', script: { workMs: 100_000 } },
          { agentId: 'poison', key: 'p1', script: { kills: 'always' } },
          { agentId: 'cid', key: 'c1', script: { workMs: 100_000, writes: 1 } },
        ],
      },
      concurrency: 4,
    },
    [culpritsFail],
    () => noFaults,
  ),
  'no worker for a target': story(
    {
      agents: ['ann', 'bob', 'cid'],
      clients: {
        client1: [
          { agentId: 'ann', key: 'a1', script: { kills: 'once', writes: 1 } },
          { agentId: 'bob', key: 'b1' },
          { agentId: 'cid', key: 'c1', script: { workMs: 30_000 } },
        ],
      },
      concurrency: 1,
      absentMs: 400_000,
    },
    [everyTurnSucceeds],
    () => noFaults,
  ),
  overload: story(
    {
      agents: ['ann', 'bob', 'cid', 'dan', 'eve', 'fay'],
      clients: {
        client1: ['ann', 'bob', 'cid', 'dan', 'eve', 'fay'].map((agentId) => ({
          agentId,
          key: agentId,
          script: { workMs: 40_000 },
        })),
      },
      concurrency: 1,
    },
    [nobodyDied],
  ),
  'absent watchdog': story(
    {
      agents: ['ann', 'bob'],
      clients: {
        client1: [
          { agentId: 'ann', key: 'a1', script: { workMs: 120_000 } },
          { agentId: 'bob', key: 'b1', script: { workMs: 120_000 } },
        ],
      },
    },
    [nobodyDied],
    // The clock jumps by one hour before a statement of the guard or the worker, or the guard is paused there. A paused worker
    // would rightly be reclaimed.
    (seed) => {
      const nth = 4 + (seed % 60)
      if (seed % 3 === 0) return { faults: [{ kind: 'clock-jump', at: { fibre: 'worker1', nth }, ms: 3_600_000 }] }
      const at = { fibre: 'guard1', nth }
      return { faults: [seed % 2 === 0 ? { kind: 'clock-jump', at, ms: 3_600_000 } : { kind: 'slow', at, steps: 400 }] }
    },
  ),
  'every bell is lost': story(
    {
      agents: ['ann', 'bob'],
      clients: {
        client1: [
          { agentId: 'ann', key: 'a1' },
          { agentId: 'bob', key: 'b1', script: { tools: ['answers'] } },
          { agentId: 'ann', key: 'a2' },
        ],
      },
      hosts: 1,
    },
    [nobodyDied],
    () => ({ faults: [], bell: { drop: 1, duplicate: 0, late: 0, lateMs: 1 } }),
  ),
  'fork and join': story({
    agents: ['boss', 'ann', 'slow-bob'],
    clients: { client1: [{ agentId: 'boss', key: 'b1', script: { fork: ['ann', 'slow-bob', 'ann'] } }] },
    workers: 2,
    joiners: 2,
  }),
  'a forking parent is stopped': story({
    agents: ['boss', 'ann', 'slow-bob'],
    clients: {
      client1: [{ agentId: 'boss', key: 'b1', script: { fork: ['ann', 'slow-bob'] } }],
      client2: [{ agentId: 'boss', key: 'b1', script: { fork: ['ann', 'slow-bob'] }, stop: true }],
    },
    joiners: 1,
  }),
  'fork with a budget, failing fast': story({
    agents: ['boss', 'ann', 'slow-bob', 'bad-cid'],
    clients: {
      client1: [
        {
          agentId: 'boss',
          key: 'b1',
          budget: { tokens: 150 },
          script: { spends: { calls: 1, tokens: 20 }, fork: ['ann', 'slow-bob', 'bad-cid'], failFast: true },
        },
      ],
    },
    workers: 2,
    joiners: 1,
  }),
  'an account reaches a limit': {
    ...story(
      {
        agents: ['ann', 'bob'],
        clients: { client1: ['ann', 'bob'].map((agentId) => ({ agentId, key: agentId, script: { refusals: 3 } })) },
      },
      [everyTurnSucceeds],
      () => noFaults,
    ),
    always: [...always, oneProbePerWindow],
  },
  'two PMOs, one schedule': scheduleStory,
  'two people and two workers, one approval': approvalStory,
  ...races,
} as const satisfies Record<string, Story>

export type StoryName = keyof typeof stories
