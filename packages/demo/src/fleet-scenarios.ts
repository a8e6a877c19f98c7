/**
 * Scenarios with turns: a steady load, a tool that hangs, a tool without a host, a turn canceled in the queue and one stopped
 * while it runs, a killed worker, and a lead that forks and then asks a person.
 */
import { deliverableText } from 'bellwether/client'
import { actors, laps, targets, tools } from './actors.js'
import { countFault, enqueue, readTurn, stopTurn, waitFor, waitForEnd, type Context } from './context.js'

export interface LoadOptions {
  readonly turns: number
  readonly everyMs: number
  /** Token limit per turn, for a model that costs money. */
  readonly maxTokens?: number
}

const killAtLap = 3
// A user at the dashboard gets the time to answer first.
const answerAfterMs = { terminal: 12_000, unattended: 2_500 } as const

export async function steadyLoad(context: Context, { turns, everyMs, maxTokens }: LoadOptions): Promise<void> {
  const agents = [...actors.writers, ...actors.researchers]
  context.say(`sending ${turns} turns to ${actors.writers.length} writers and ${actors.researchers.length} researchers`)
  for (let turn = 0; turn < turns && !context.signal.aborted; turn += 1) {
    await enqueue(context, agents[turn % agents.length]!, `Paragraph ${turn + 1}.`, maxTokens)
    await context.clock.sleep(everyMs, context.signal)
  }
}

/** At the timeout the tool host reports `unknown`: the call may have taken effect. */
export async function hangingTool(context: Context): Promise<void> {
  const turnId = await enqueue(context, actors.weatherman, 'What is the weather?')
  countFault(context, 'tool hangs')
  context.say(`weatherman calls ${tools.barometer}, which hangs`)
  const turn = await waitForEnd(context, 'weatherman delivers', turnId)
  if (turn !== undefined)
    context.say(`the call timed out and the turn continued: “${deliverableText(turn) ?? 'nothing'}”`)
}

/** The watchdog answers this call. */
export async function toolWithoutHost(context: Context): Promise<void> {
  const declaration = {
    description: 'Sends a pigeon.',
    parameters: { type: 'object' },
    options: { suspend_timeout_seconds: 4 },
  }
  const params = { tool: tools.pigeonPost }
  await context.client.insist('PUT /projects/:project/tools/:tool', { params, body: declaration })
  const turnId = await enqueue(context, actors.pigeonKeeper, 'Send word to Paris.')
  countFault(context, 'tool without a host')
  const turn = await waitForEnd(context, 'pigeon-keeper delivers', turnId)
  if (turn !== undefined)
    context.say(
      `no host runs pigeon-post; the watchdog timed the call out, and the turn continued: “${deliverableText(turn) ?? 'nothing'}”`,
    )
}

export async function stopAndCancel(context: Context): Promise<void> {
  const first = await enqueue(context, actors.sleeper, 'Sleep until you are stopped.')
  await waitFor(context, 'sleeper starts', async () => (await readTurn(context, first)).claimed_by ?? undefined)
  const second = await enqueue(context, actors.sleeper, 'Then sleep again.')
  await stopTurn(context, second, 'no longer needed')
  await waitForEnd(context, 'the queued turn is canceled', second)
  await stopTurn(context, first, 'no longer needed')
  context.say('sleeper: canceled one turn in the queue and stopped one while it ran')
}

export async function killedWorker(context: Context): Promise<void> {
  const turnId = await enqueue(context, actors.marathon, `Run ${laps} laps.`)
  const lapsRun = async () => (await readTurn(context, turnId)).steps.filter((step) => step.phase === 'model').length
  await waitFor(context, `lap ${killAtLap} is run`, async () => ((await lapsRun()) >= killAtLap ? true : undefined))
  const holder = (await readTurn(context, turnId)).claimed_by
  // A worker id is hostname-pid-suffix.
  const pid = Number(holder?.split('-').at(-2))
  if (holder === null || !Number.isSafeInteger(pid) || context.signal.aborted) return
  process.kill(pid, 'SIGKILL')
  countFault(context, 'worker killed with SIGKILL')
  context.say(
    `kill -9 ${pid}: killed the worker of target ${targets.models}; marathon is at lap ${await lapsRun()} of ${laps}`,
  )
  const next = await waitFor(context, 'another worker takes the turn over', async () => {
    const { claimed_by: now } = await readTurn(context, turnId)
    return now === null || now === holder ? undefined : now
  })
  if (next !== undefined)
    context.say(
      `a new worker (pid ${next.split('-').at(-2)}) took marathon over at lap ${await lapsRun()}, from its cards`,
    )
  await waitForEnd(context, 'marathon delivers', turnId)
}

/** `onTerminal`: a user may want to answer the question. */
export async function forkAndQuestion(context: Context, onTerminal: boolean): Promise<void> {
  const turnId = await enqueue(context, actors.lead, 'Bring the evening edition out.')
  context.say('lead forks twelve children, one of which will fail')
  const question = await waitFor(context, 'lead asks a person', async () => {
    const { questions } = await context.client.insist('GET /projects/:project/questions')
    return questions.find((one) => one.agent_turn_id === turnId)
  })
  if (question === undefined) return
  const children = (await readTurn(context, turnId)).children.map((child) => child.status)
  const delivered = children.filter((status) => status === 'success').length
  context.say(`${delivered} of ${children.length} children delivered; lead asks a person: “Shall it go to print?”`)
  const waitMs = onTerminal ? answerAfterMs.terminal : answerAfterMs.unattended
  context.say(`answer it on the dashboard (Needs you), or the demo answers in ${waitMs / 1_000} s`)
  await context.clock.sleep(waitMs, context.signal)
  const { status } = await context.client.insist('POST /projects/:project/tool-calls/:call/result', {
    params: { call: question.tool_call_id },
    body: { status: 'success', result: { choice: 'yes' } },
  })
  context.say(status === 'ignored' ? 'the question was already answered' : 'the demo answers: yes')
  await waitForEnd(context, 'lead delivers', turnId)
}
