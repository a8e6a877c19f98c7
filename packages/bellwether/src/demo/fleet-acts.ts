/**
 * The acts in which turns are put in line by hand: a steady load, a tool that hangs, one that nobody hosts, a turn cancelled in the
 * queue and one stopped, a worker killed in the middle, and a lead whose work fans out and ends with a person.
 */
import { cast, laps, projectId, targets, tools } from './cast.js'
import { ended, enqueue, fault, sees, stopTurn, textOf, turnOf, type Play } from './play.js'

export interface LoadOptions {
  readonly turns: number
  readonly everyMs: number
  /** Of each turn, where they are paid for. */
  readonly maxTokens?: number
}

const killAtLap = 3
// Somebody at the dashboard should have the time to be first.
const answerAfterMs = { watched: 12_000, alone: 2_500 } as const

export async function load(play: Play, { turns, everyMs, maxTokens }: LoadOptions): Promise<void> {
  const agents = [...cast.writers, ...cast.researchers]
  play.say(
    `${turns} turns are on their way to ${cast.writers.length} writers and ${cast.researchers.length} researchers`,
  )
  for (let turn = 0; turn < turns && !play.signal.aborted; turn += 1) {
    await enqueue(play, agents[turn % agents.length]!, `Paragraph ${turn + 1}.`, maxTokens)
    await play.clock.sleep(everyMs, play.signal)
  }
}

/** Its host answers in its place: nobody knows whether it took effect. */
export async function hangingTool(play: Play): Promise<void> {
  const turnId = await enqueue(play, cast.weatherman, 'What is the weather?')
  fault(play, 'tool that hangs')
  play.say(`weatherman calls ${tools.barometer}, which hangs`)
  const turn = await ended(play, 'weatherman has ended', turnId)
  if (turn !== undefined) play.say(`the call was timed out, the turn went on: “${textOf(turn)}”`)
}

/** Nobody answers for it but the watchdog. */
export async function silentTool(play: Play): Promise<void> {
  const declared = {
    description: 'Sends a pigeon.',
    parameters: { type: 'object' },
    options: { suspend_timeout_seconds: 4 },
  }
  await play.client.insist('PUT', `/projects/${projectId}/tools/${tools.pigeonPost}`, declared)
  const turnId = await enqueue(play, cast.pigeonKeeper, 'Send word to Paris.')
  fault(play, 'tool that nobody hosts')
  const turn = await ended(play, 'pigeon-keeper has ended', turnId)
  if (turn !== undefined)
    play.say(`the watchdog answered in the pigeon’s place, and pigeon-keeper delivered: “${textOf(turn)}”`)
}

export async function stopping(play: Play): Promise<void> {
  const first = await enqueue(play, cast.sleeper, 'Sleep until you are stopped.')
  await sees(play, 'the sleeper sleeps', async () => (await turnOf(play, first)).claimed_by ?? undefined)
  const second = await enqueue(play, cast.sleeper, 'Then sleep again.')
  await stopTurn(play, second, 'changed our mind')
  await ended(play, 'the queued turn is cancelled', second)
  await stopTurn(play, first, 'the show is over')
  play.say('sleeper: one turn was cancelled in the line, one stopped while it ran')
}

export async function crash(play: Play): Promise<void> {
  const turnId = await enqueue(play, cast.marathon, `Run ${laps} laps.`)
  const run = async () => (await turnOf(play, turnId)).steps.filter((step) => step.phase === 'model').length
  await sees(play, `lap ${killAtLap} is run`, async () => ((await run()) >= killAtLap ? true : undefined))
  const holder = (await turnOf(play, turnId)).claimed_by
  // hostname-pid-mark
  const pid = Number(holder?.split('-').at(-2))
  if (holder === null || !Number.isSafeInteger(pid) || play.signal.aborted) return
  process.kill(pid, 'SIGKILL')
  fault(play, 'worker killed with SIGKILL')
  play.say(`kill -9 ${pid}: the worker of ${targets.desk} is dead, marathon after lap ${await run()} of ${laps}`)
  const heir = await sees(play, 'the turn is taken over', async () => {
    const { claimed_by: now } = await turnOf(play, turnId)
    return now === null || now === holder ? undefined : now
  })
  if (heir !== undefined)
    play.say(
      `a new worker (pid ${heir.split('-').at(-2)}) has taken marathon over after lap ${await run()}, from its cards`,
    )
  await ended(play, 'marathon has ended', turnId)
}

/** `watched`: somebody sits at a terminal, and may want to answer. */
export async function evening(play: Play, watched: boolean): Promise<void> {
  const turnId = await enqueue(play, cast.lead, 'Bring the evening edition out.')
  play.say('lead forks: twelve sheets to fold, one of which will fail')
  const question = await sees(play, 'lead asks a person', async () => {
    const path = `/projects/${projectId}/questions`
    const { questions } = await play.client.insist<{ questions: { tool_call_id: string; agent_turn_id: string }[] }>(
      'GET',
      path,
    )
    return questions.find((one) => one.agent_turn_id === turnId)
  })
  if (question === undefined) return
  const children = (await turnOf(play, turnId)).children.map((child) => child.status)
  play.say(
    `${children.filter((status) => status === 'success').length} of ${children.length} children delivered; lead now asks a person: “Shall it go to print?”`,
  )
  const waitMs = watched ? answerAfterMs.watched : answerAfterMs.alone
  play.say(`you can answer on the dashboard (Needs you); in ${waitMs / 1_000} s the demo does it`)
  await play.clock.sleep(waitMs, play.signal)
  const call = `/projects/${projectId}/tool-calls/${question.tool_call_id}/result`
  const { status } = await play.client.insist<{ status: string }>('POST', call, {
    status: 'success',
    result: { choice: 'yes' },
  })
  play.say(status === 'ignored' ? 'somebody has answered already' : 'the demo answers: yes')
  await ended(play, 'lead has ended', turnId)
}
