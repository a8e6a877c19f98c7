/** Messages to the turns of programs, with the stand-ins of examples/coding-agent. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { killTree } from '../../../src/ports/processes/kill-tree.js'
import type { Kernel } from '../../../src/kernel/kernel.js'
import type { CommandSpec } from '../../../src/worker/executors/command.js'
import type { PresetName } from '../../../src/worker/executors/presets.js'
import { codingAgentPath, onPath, sessionLines, withFolderOnPath } from '../../support/agents/coding-agents.js'
import { project } from '../../support/kernel.js'
import { until } from '../../support/until.js'
import { openCommandSetup, type CommandSetup } from '../command-setup.js'

let b: CommandSetup
let folders = 0
onPath()
beforeAll(async () => {
  b = await openCommandSetup()
})
afterAll(() => b.close())

/** A turn whose program pauses at these points; it has reached the first. `dies`: its worker can die. */
async function paused(preset: PresetName, points: readonly string[], dies = false) {
  const cwd = `work/steered-${(folders += 1)}`
  const folder = join(b.folder, cwd)
  await mkdir(folder)
  const gate = (point: string) => join(folder, `gate-${point}`)
  const never = () => new Promise<never>(() => undefined)
  const dead = new Set<string>()
  // After its death, a worker's calls never come back. Before it, single calls may be blocked.
  const kernel = Object.fromEntries(
    Object.entries(b.t.kernel).map(([name, verb]) => [
      name,
      typeof verb === 'function'
        ? (...values: never[]) =>
            dead.has(name) || dead.has('all') ? never() : (verb as (...all: never[]) => unknown)(...values)
        : verb,
    ]),
  )
  const orders = points.map((point) => `stand-in: pause ${point} ${gate(point)}`)
  const turn = await b.begin(
    { preset, cwd, args: preset === 'claude' ? ['--permission-mode', 'acceptEdits'] : [] },
    { instruction: `Begin.\n${orders.join('\n')}` },
    undefined,
    dies ? b.mortal(kernel) : undefined,
  )
  const reached = (point: string) =>
    until(`the program has reached point ${point}`, async () => existsSync(`${gate(point)}.reached`) || undefined)
  await reached(points[0]!)
  await until('the session is stored', async () => (await sessionOf(turn)) || undefined)
  return {
    turn,
    reached,
    block: (verb: keyof Kernel) => void dead.add(verb),
    async die() {
      dead.add('all')
      // As the guardian of the dead worker does.
      await killTree({ clock: systemClock, graceMs: 0, wanted: (token) => token.includes(turn) })
    },
    release: (point: string) => writeFile(gate(point), ''),
    lines: () => sessionLines(preset, folder),
  }
}

const sessionOf = async (turn: string) =>
  (
    await b.t.all<{ messages_seen: number; answered: boolean }>(
      'select * from state.program_sessions where agent_turn_id = $1',
      turn,
    )
  )[0]

const say = (turn: string, text: string, urgent = false) =>
  b.t.kernel.say({ projectId: project, agentTurnId: turn, messageId: text, saidBy: 'rita', text, urgent })
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
  expect(await sessionOf(turn)).toMatchObject({ messages_seen: 2 })
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
    await until('the reading is stored', async () => (await sessionOf(turn))?.messages_seen === 1 || undefined)
  await setup.die()
  expect(await sessionOf(turn)).toMatchObject({ messages_seen: stores ? 1 : 0 })
  expect(readMessages()).toHaveLength(reads ? 1 : 0)
  await release('1')
  await release('3')
  await b.reclaimed()
  await b.worker.step()
  expect(await b.ended(turn)).toMatchObject({ outcome: 'success', taskEvents: 1 })
  expect(readMessages()).toHaveLength(1)
  expect([0, 1, 2, 3, 4].map((call) => lines().filter((line) => line.call === call).length)).toEqual([1, 1, 1, 1, 1])
})

it.each(['codex', 'gemini', 'opencode'] as const)(
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

it('an urgent message interrupts codex, which continues its session with it', async () => {
  const { turn, release, lines } = await paused('codex', ['3'])
  await until('an answer is stored', async () => (await sessionOf(turn))?.answered || undefined)
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
