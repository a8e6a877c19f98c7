/** What the executors add to the transcript of a turn. */
import { systemClock, systemRandom } from '@bellwether/base'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readTranscript } from '../../src/kernel/reads/transcript.js'
import { openTranscriptWriter } from '../../src/worker/transcript.js'
import { turnTranscript } from '../../src/worker/turn-transcript.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { quietLog as log } from '../support/quiet-log.js'
import { runTurns, testWorker } from '../support/worker.js'
import { openModelSetup } from './model/model-setup.js'
import { openCommandSetup, type CommandSetup } from './command-setup.js'

const t = kernelPerFile({ time: 'real' })
let b: CommandSetup
beforeAll(async () => {
  b = await openCommandSetup()
})
afterAll(() => b.close())

const openWriter = () =>
  openTranscriptWriter({ kernel: t.kernel, clock: systemClock, log, random: systemRandom, maxBytes: 65_536 })
const of = async (turn: string) =>
  (await readTranscript(t.db, turn, 0, 100)).entries.map(({ kind, content, call_id }) => [kind, content, call_id])

/** A model's text comes in pieces. */
function joined(entries: Awaited<ReturnType<typeof of>>): [kind: string, content: string][] {
  const all: [kind: string, content: string][] = []
  for (const [kind, content] of entries) {
    const last = all.at(-1)
    if (last !== undefined && last[0] === kind) last[1] += content!
    else all.push([kind!, content!])
  }
  return all
}

describe('the transcript', () => {
  it('[T9.2] the transcript has what a command printed on both streams, and its step has a duration', async () => {
    const done = await b.run({ command: 'echo out; echo err >&2; sleep 0.05; echo again' })
    expect(done).toMatchObject({ outcome: 'success' })
    const { entries } = await readTranscript(b.t.db, done.agent_turn_id!, 0, 100)
    const printed = (kind: string) =>
      entries
        .filter((entry) => entry.kind === kind)
        .map(({ content }) => content)
        .join('')
    expect([printed('stdout'), printed('stderr')]).toEqual(['out\nagain\n', 'err\n'])
    const [step] = await b.t.all<{ took: boolean }>(
      'select ended_at > started_at as took from state.agent_steps where agent_turn_id = $1',
      done.agent_turn_id,
    )
    expect(step).toEqual({ took: true })
  })

  it('[T9.2] the transcript has what a function agent says, its tool calls and their results, and nothing for an agent that says nothing', async () => {
    await t.agents('talker', 'silent')
    const transcript = openWriter()
    const worker = testWorker(
      t,
      () => async (context) => {
        if (context.turn.agentId === 'silent') return { deliver: { text: 'done' } }
        if (context.results.length > 0) {
          context.say({ kind: 'thought', content: 'good' })
          return { deliver: { text: 'done' } }
        }
        context.say('hello')
        return {
          suspend: { calls: [{ toolCallId: `${context.turn.agentTurnId}-c`, toolName: 'grep', args: { q: 1 } }] },
        }
      },
      { transcript },
    )
    const talker = await t.kernel.enqueue({ projectId: project, agentId: 'talker', instruction: 'x' })
    const silent = await t.kernel.enqueue({ projectId: project, agentId: 'silent', instruction: 'x' })
    await runTurns(worker)
    const call = `${talker.agentTurnId}-c`
    await t.kernel.report([{ projectId: project, toolCallId: call, status: 'success', result: 'found' }])
    await runTurns(worker)
    expect(await of(talker.agentTurnId!)).toEqual([
      ['text', 'hello', null],
      ['tool_call', '{"q":1}', call],
      ['tool_result', 'found', call],
      ['thought', 'good', null],
    ])
    expect(await of(silent.agentTurnId!)).toEqual([])
    await transcript.close()
  })

  it('[T9.2] a takeover is noted, and results that an earlier attempt wrote are not written again', async () => {
    await t.agents('taken')
    const turn = await t.running('taken')
    const transcript = openWriter()
    const result = (id: string) => ({
      ...{ tool_call_id: id, tool_name: 'grep', status: 'success' as const, result: `found ${id}`, error: null },
      ...{ step_id: 's', wait_status: 'received' as const, after_execution: 'suspend' as const },
    })
    await turnTranscript(transcript, t.kernel, turn).results([result('a')])
    await transcript.flush(turn)
    await turnTranscript(transcript, t.kernel, { ...turn, takenOver: true }).results([result('a'), result('b')])
    await transcript.close()
    expect(await of(turn.agentTurnId)).toEqual([
      ['tool_result', 'found a', 'a'],
      ['note', 'Another worker continues this turn.', null],
      ['tool_result', 'found b', 'b'],
    ])
  })

  it('[T9.2] the transcript has the text and the thoughts of a model, its tool calls and their results', async () => {
    const transcript = openWriter()
    const setup = await openModelSetup({
      t,
      transcript,
      tools: { add: ({ a, b: other }) => Number(a) + Number(other) },
    })
    const answers = [
      { thought: 'easy', text: 'I add.', calls: [{ name: 'add', args: { a: 2, b: 3 } }] },
      { text: 'It is 5.' },
    ]
    const model = setup.script((_request, step) => answers[step]!)
    const done = await setup.run({ model })
    expect(done).toMatchObject({ outcome: 'success', text: 'It is 5.' })
    expect(joined(await of(done.agent_turn_id!))).toEqual([
      ['thought', 'easy'],
      ['text', 'I add.'],
      ['tool_call', '{"a":2,"b":3}'],
      ['tool_result', '5'],
      ['text', 'It is 5.'],
    ])
    await setup.close()
    await transcript.close()
  })
})
