/**
 * The play: a steady load of turns, and on top of it one turn whose tool never answers, one cancelled in the queue, one
 * stopped, and one whose worker is killed with SIGKILL in the middle. Every turn id is kept, to be asked about at the end.
 */
import type { Enqueued } from '../kernel/enqueue.js'
import type { Kernel } from '../kernel/kernel.js'
import type { Clock } from '../ports/clock.js'
import { cast, laps } from './cast.js'
import type { Member } from '../serve/member.js'

export interface Stage {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly projectId: string
  readonly signal: AbortSignal
  say(sentence: string): void
  /** The worker that claims under this id. */
  workerOf(workerId: string): Member | undefined
  /** Puts a new worker in the place of one that is dead. */
  replace(dead: Member): Promise<Member>
}

export interface Played {
  readonly turnIds: readonly string[]
  readonly faults: Readonly<Record<string, number>>
}

// 72 turns in 18 s: the stage stays busy from the first act to the last.
const loadTurns = 72
const loadEveryMs = 250
const killAtLap = 4
const lookEveryMs = 250
const actMaxMs = 45_000

export async function play(stage: Stage): Promise<Played> {
  const turnIds: string[] = []
  const faults: Record<string, number> = {}
  const fault = (name: string) => (faults[name] = (faults[name] ?? 0) + 1)
  const enqueue = async (agentId: string, instruction: string): Promise<Enqueued> => {
    const turn = await stage.kernel.enqueue({ projectId: stage.projectId, agentId, instruction })
    turnIds.push(turn.agentTurnId)
    return turn
  }
  await Promise.all([
    load(stage, enqueue),
    pigeon(stage, enqueue, fault),
    stopping(stage, enqueue),
    crash(stage, enqueue, fault),
  ])
  stage.say('the last turn is in; waiting until every one has ended')
  await sees(stage, 'every turn has ended', async () => (await open(stage, turnIds)) === 0)
  return { turnIds, faults }
}

type Enqueue = (agentId: string, instruction: string) => Promise<Enqueued>

async function load(stage: Stage, enqueue: Enqueue): Promise<void> {
  stage.say(
    `${loadTurns} turns are on their way to ${cast.writers.length} writers and ${cast.researchers.length} researchers`,
  )
  const agents = [...cast.writers, ...cast.researchers]
  for (let turn = 0; turn < loadTurns && !stage.signal.aborted; turn += 1) {
    await enqueue(agents[turn % agents.length]!, `Paragraph ${turn + 1}.`)
    await stage.clock.sleep(loadEveryMs, stage.signal)
  }
}

async function pigeon(stage: Stage, enqueue: Enqueue, fault: (name: string) => void): Promise<void> {
  const { agentTurnId } = await enqueue(cast.pigeonKeeper, 'Send word to Paris.')
  fault('tool that never answers')
  stage.say('pigeon-keeper calls a tool that will never answer')
  await sees(stage, 'the pigeon turn has ended', async () => (await status(stage, agentTurnId))?.ended === true)
  stage.say('the watchdog answered in the tool’s place, and pigeon-keeper delivered')
}

async function stopping(stage: Stage, enqueue: Enqueue): Promise<void> {
  const first = await enqueue(cast.sleeper, 'Sleep until you are stopped.')
  await sees(stage, 'the sleeper runs', async () => (await holderOf(stage, first.agentTurnId)) !== '')
  const second = await enqueue(cast.sleeper, 'Then sleep again.')
  stage.say(`sleeper has a second turn ${second.status} behind its first; cancelling it there`)
  await stage.kernel.stop({ projectId: stage.projectId, agentTurnId: second.agentTurnId, reason: 'changed our mind' })
  await sees(
    stage,
    'the queued turn is cancelled',
    async () => (await status(stage, second.agentTurnId))?.ended === true,
  )
  await stage.kernel.stop({ projectId: stage.projectId, agentTurnId: first.agentTurnId, reason: 'the show is over' })
  stage.say('sleeper’s first turn was stopped while it ran')
}

async function crash(stage: Stage, enqueue: Enqueue, fault: (name: string) => void): Promise<void> {
  const { agentTurnId } = await enqueue(cast.marathon, `Run ${laps} laps and write each one down.`)
  await sees(stage, `lap ${killAtLap} is run`, async () => (await lapsRun(stage, agentTurnId)) >= killAtLap)
  const holder = await holderOf(stage, agentTurnId)
  const victim = stage.workerOf(holder)
  if (victim === undefined || stage.signal.aborted) return
  victim.kill()
  await victim.ended
  fault('worker killed with SIGKILL')
  stage.say(
    `kill -9 ${victim.pid}: marathon’s worker is dead after lap ${await lapsRun(stage, agentTurnId)} of ${laps}`,
  )
  const fresh = await stage.replace(victim)
  stage.say(`a new worker takes its place (pid ${fresh.pid})`)
  await sees(stage, 'the turn is taken over', async () => !['', holder].includes(await holderOf(stage, agentTurnId)))
  const heir = stage.workerOf(await holderOf(stage, agentTurnId))
  stage.say(
    `pid ${heir?.pid ?? '?'} has taken marathon over and goes on from lap ${(await lapsRun(stage, agentTurnId)) + 1}, as the cards say`,
  )
}

/** Waits for what is about to be true; gives up loudly, so that the audit shows what is stuck. */
async function sees(stage: Stage, what: string, ask: () => Promise<boolean>): Promise<void> {
  const untilMs = stage.clock.monotonicMs() + actMaxMs
  while (!stage.signal.aborted && !(await ask())) {
    if (stage.clock.monotonicMs() > untilMs) {
      stage.say(`waited ${actMaxMs / 1_000} s in vain: ${what}`)
      return
    }
    await stage.clock.sleep(lookEveryMs, stage.signal)
  }
}

async function status(
  stage: Stage,
  agentTurnId: string,
): Promise<{ claimed_by: string | null; ended: boolean } | undefined> {
  const [row] = await stage.kernel.db.query<{ claimed_by: string | null; ended: boolean }>({
    text: 'select claimed_by, ended_at is not null as ended from state.turns where agent_turn_id = $1',
    values: [agentTurnId],
  })
  return row
}

/** The worker id that holds the turn; empty while nobody does. */
async function holderOf(stage: Stage, agentTurnId: string): Promise<string> {
  return (await status(stage, agentTurnId))?.claimed_by ?? ''
}

async function lapsRun(stage: Stage, agentTurnId: string): Promise<number> {
  const [row] = await stage.kernel.db.query<{ laps: number }>({
    text: `select count(*)::int as laps from cards.cards
      where project_id = $1 and type = 'agent.thought' and metadata ->> 'agent_turn_id' = $2`,
    values: [stage.projectId, agentTurnId],
  })
  return row?.laps ?? 0
}

async function open(stage: Stage, turnIds: readonly string[]): Promise<number> {
  const [row] = await stage.kernel.db.query<{ open: number }>({
    text: 'select count(*)::int as open from state.turns where agent_turn_id = any ($1) and ended_at is null',
    values: [turnIds],
  })
  return row?.open ?? 0
}
