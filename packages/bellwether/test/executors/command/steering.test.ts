/** Messages to the turns of programs, with the stand-ins of examples/coding-agent. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { CommandSpec } from '../../../src/worker/executors/command.js'
import type { PresetName } from '../../../src/worker/executors/presets.js'
import { callsOf, codingAgentPath, onPath, withFolderOnPath } from '../../support/agents/coding-agents.js'
import { project } from '../../support/kernel.js'
import { until } from '../../support/until.js'
import { openCommandSetup, type CommandSetup } from '../command-setup.js'
import { pausedProgram, sessionOf } from './paused-program.js'

let b: CommandSetup
onPath()
beforeAll(async () => {
  b = await openCommandSetup()
})
afterAll(() => b.close())

const paused = (preset: PresetName, points: readonly string[], dies = false) => pausedProgram(b, preset, points, dies)

const say = (turn: string, text: string, urgent = false) =>
  b.t.kernel.say({ projectId: project, agentTurnId: turn, messageId: text, sender: 'rita', text, urgent })
const delivered = (turn: string) =>
  b.t.all<{ seq: number; delivered: boolean }>(
    'select seq, delivered_at is not null as delivered from state.turn_messages where agent_turn_id = $1 order by seq',
    turn,
  )
const transcriptOf = (turn: string) =>
  b.t.all<{ name: string; content: string }>(
    "select name, content from state.transcript where agent_turn_id = $1 and name like 'message from %' order by seq",
    turn,
  )

it('a running claude reads messages from its input, once and in order', async () => {
  const { turn, release, lines } = await paused('claude', ['2'])
  await say(turn, 'first')
  await say(turn, 'second')
  await until(
    'the messages are delivered',
    async () => (await delivered(turn)).every((one) => one.delivered) || undefined,
  )
  await release('2')
  const done = await b.ended(turn)
  expect(done).toMatchObject({ outcome: 'success', taskEvents: 1 })
  expect(done.text).toMatch(/Heard: Message 1 from rita:\nfirst\nHeard: Message 2 from rita:\nsecond/)
  expect(done.steps).toHaveLength(1)
  expect(lines().filter(({ text }) => /from rita/.test(text ?? ''))).toHaveLength(2)
  expect(await sessionOf(b, turn)).toMatchObject({ messages_seen: 2 })
  expect(await transcriptOf(turn)).toEqual([
    { name: 'message from rita', content: 'first' },
    { name: 'message from rita', content: 'second' },
  ])
  await expect(say(turn, 'late')).rejects.toThrow(/has ended \(success\).*/)
})

it.each([
  ['before the program read it', { reads: false, stores: false }],
  ['after the program read it, before that was stored', { reads: true, stores: false }],
  ['after the program read it and that was stored', { reads: true, stores: true }],
] as const)('a takeover gives claude each message once if the worker died %s', async (_, { reads, stores }) => {
  const setup = await paused('claude', ['1', '3'], true)
  const { turn, block, reached, release, lines } = setup
  const readMessages = () => lines().filter(({ text }) => /from rita/.test(text ?? ''))
  await say(turn, 'keep it')
  await until('the message is delivered', async () => (await delivered(turn))[0]?.delivered || undefined)
  if (!stores) block('storeSession')
  // It reads its input between the calls 2 and 3.
  if (reads) await release('1')
  if (reads) await reached('3')
  if (stores)
    await until('the reading is stored', async () => (await sessionOf(b, turn))?.messages_seen === 1 || undefined)
  await setup.die()
  expect(await sessionOf(b, turn)).toMatchObject({ messages_seen: stores ? 1 : 0 })
  expect(readMessages()).toHaveLength(reads ? 1 : 0)
  await release('1')
  await release('3')
  await b.reclaimed()
  await b.worker.step()
  expect(await b.ended(turn)).toMatchObject({ outcome: 'success', taskEvents: 1 })
  expect(readMessages()).toHaveLength(1)
  expect([0, 1, 2, 3, 4].map((call) => lines().filter((line) => line.call === call).length)).toEqual([1, 1, 1, 1, 1])
})

it.each(['codex', 'gemini', 'opencode', 'aider'] as const)(
  'a running %s gets a message with its next run in the same session',
  async (preset) => {
    const { turn, release, lines } = await paused(preset, ['3'])
    await say(turn, 'also this')
    expect(await delivered(turn)).toEqual([{ seq: 1, delivered: false }])
    await release('3')
    const done = await b.ended(turn)
    expect(done).toMatchObject({ outcome: 'success', taskEvents: 1 })
    expect(done.text).toMatch(/after 1 earlier prompts/)
    expect(done.steps).toHaveLength(2)
    const prompts = lines().flatMap(({ type, text }) => (type === 'prompt' ? [text] : []))
    expect(prompts).toEqual([expect.stringContaining('Begin.'), '# Messages\n\nMessage 1 from rita:\nalso this\n'])
  },
)

it.each([
  ['codex', '4', 'once', 1],
  ['opencode', '4', 'once', 1],
  ['gemini', 'session', 'again under its number, because its session may lack it', 2],
  ['aider', 'session', 'again under its number, because its session may lack it', 2],
] as const)(
  'a takeover from a worker that died in the second run of %s, at point %s, gives the message %s',
  async (preset, point, _, times) => {
    const { turn, folder, release, lines, die } = await paused(preset, ['3'], true)
    const gate = join(folder, 'gate-second')
    await say(turn, `also this\nstand-in: pause ${point} ${gate}`)
    await release('3')
    await until('the second run has reached the point', async () => existsSync(`${gate}.reached`) || undefined)
    const seen = times === 1 ? 1 : 0
    await until('the reading is stored', async () => (await sessionOf(b, turn))?.messages_seen === seen || undefined)
    await die()
    await writeFile(gate, '')
    await b.reclaimed()
    await b.worker.step()
    expect(await b.ended(turn)).toMatchObject({ outcome: 'success', taskEvents: 1 })
    const prompts = lines().flatMap(({ type, text = '' }) => (type === 'prompt' ? [text] : []))
    expect(prompts.filter((text) => text.includes('Message 1 from rita:\nalso this'))).toHaveLength(times)
    expect(await delivered(turn)).toEqual([{ seq: 1, delivered: true }])
    // Once for the task, once for the message.
    expect(callsOf(preset, folder).slice(0, -1)).toEqual([2, 2, 2, 2, 2])
  },
)

it('an urgent message interrupts codex, which continues its session with it', async () => {
  const { turn, release, lines } = await paused('codex', ['3'])
  await until('an answer is stored', async () => (await sessionOf(b, turn))?.answered || undefined)
  await say(turn, 'stop that', true)
  // The gate stays closed: only the interruption ends the first run. The second one must not wait.
  await until('the first run has ended', async () => (await delivered(turn))[0]?.delivered || undefined)
  await release('3')
  const done = await b.ended(turn)
  expect(done).toMatchObject({ outcome: 'success', taskEvents: 1 })
  expect(
    lines()
      .flatMap(({ type, text }) => (type === 'prompt' ? [text] : []))
      .at(-1),
  ).toContain('stop that')
  expect([0, 1, 2, 3, 4].map((call) => lines().filter((line) => line.call === call).length)).toEqual([1, 1, 1, 1, 1])
})

/** A program named claude that reads its input to the end, and then starts the stand-in with it. */
async function wrapped(spec: Partial<CommandSpec>, setup: CommandSetup) {
  const bin = join(setup.folder, 'bin')
  await mkdir(bin, { recursive: true })
  const script = `#!/bin/sh\ninput=$(cat)\necho "$@" > ${setup.folder}/flags\nprintf '%s\\n' "$input" | ${codingAgentPath}/claude "$@"\n`
  await writeFile(join(bin, 'claude'), script, { mode: 0o755 })
  return withFolderOnPath(bin, () => setup.run({ preset: 'claude', ...spec }))
}

it('a wrapper that reads all its input gets its end if it prints nothing, and with "steering: off" at once', async () => {
  const setup = await openCommandSetup({ firstEventMs: 500 })
  try {
    const done = await wrapped({}, setup)
    expect(done).toMatchObject({ outcome: 'success', text: expect.stringContaining('claude read') })
    const notes = await setup.t.all<{ content: string }>(
      `select content from state.transcript where agent_turn_id = $1 and content like '%its input was closed%'`,
      done.agent_turn_id,
    )
    expect(notes).toHaveLength(1)
    expect(readFileSync(join(setup.folder, 'flags'), 'utf8')).toContain('--input-format stream-json')
  } finally {
    await setup.close()
  }
  expect(await wrapped({ steering: 'off' }, b)).toMatchObject({ outcome: 'success' })
  expect(readFileSync(join(b.folder, 'flags'), 'utf8')).not.toContain('--input-format')
})
