/**
 * Sessions of coding agents' programs. The stand-ins of examples/coding-agent write each call of their model into the session's file, so that a
 * call that is made twice is counted twice. With BELLWETHER_REAL_CLI=claude (or codex, gemini, opencode) the tests that need no such count
 * run with the real program, which must be signed in.
 */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CommandSpec } from '../../../src/worker/executors/command.js'
import { presetNames, type PresetName } from '../../../src/worker/executors/presets.js'
import {
  callsOf,
  codingAgentPath,
  codingAgents,
  onPath,
  promptsOf,
  tokensOf,
  withFolderOnPath,
} from '../../support/agents/coding-agents.js'
import { thorough } from '../../support/thorough.js'
import { until } from '../../support/until.js'
import { openCommandSetup, type CommandSetup } from '../command-setup.js'
import { mayWrite, pausedProgram, sessionOf } from './paused-program.js'

const { names: presets, path: agentPath, isReal } = codingAgents()
let b: CommandSetup
let folders = 0
const path = process.env['PATH']
onPath(agentPath)
beforeAll(async () => {
  b = await openCommandSetup()
})
afterAll(() => b.close())

/** The tokens that the steps of a turn recorded. */
async function usedBy(turn: string): Promise<number> {
  const text = `select coalesce(sum((metadata #>> '{usage,total_tokens}')::int), 0)::int as used
    from state.agent_steps where agent_turn_id = $1`
  return (await b.t.all<{ used: number }>(text, turn))[0]!.used
}

/** An agent in a folder of its own, in which the programs look for their sessions. */
async function agentOf(preset: PresetName, more: Partial<CommandSpec> = {}) {
  const cwd = `work/${(folders += 1)}`
  await mkdir(join(b.folder, cwd))
  const spec: Partial<CommandSpec> = { preset, cwd, args: mayWrite[preset], ...more }
  return { spec, folder: join(b.folder, cwd), agentId: `resumes-${folders}` }
}

it('BELLWETHER_REAL_CLI selects the program on PATH instead of the stand-ins, and says what is wrong with it', async () => {
  const bin = join(b.folder, 'real-bin')
  await mkdir(bin)
  const env = { PATH: bin, BELLWETHER_REAL_CLI: 'claude' }
  expect(() => codingAgents(env)).toThrow('no program "claude" on PATH')
  await writeFile(join(bin, 'claude'), '#!/bin/sh\n', { mode: 0o755 })
  expect(codingAgents(env)).toEqual({ names: ['claude'], path: bin, isReal: true })
  expect(() => codingAgents({ ...env, BELLWETHER_REAL_CLI: 'clause' })).toThrow('must be one of claude, codex')
  expect(codingAgents({ PATH: bin })).toMatchObject({ path: `${codingAgentPath}${delimiter}${bin}`, isReal: false })
})

it.runIf(thorough && !isReal)('the tests that fit run with the program that BELLWETHER_REAL_CLI names', async () => {
  const bin = join(b.folder, 'second-stand-in')
  await mkdir(bin)
  const log = join(b.folder, 'second-stand-in.log')
  const script = `#!/bin/sh\necho "$@" >> ${log}\nexec ${codingAgentPath}/claude "$@"\n`
  await writeFile(join(bin, 'claude'), script, { mode: 0o755 })
  const args = ['vitest', 'run', '--project', 'bellwether', 'test/executors/command/resume']
  const env = { ...process.env, PATH: `${bin}${delimiter}${path}`, BELLWETHER_REAL_CLI: 'claude' }
  const root = fileURLToPath(new URL('../../../../..', import.meta.url))
  const { stdout } = await promisify(execFile)('npx', args, { cwd: root, env, timeout: 240_000 })
  expect(stdout).toMatch(/passed/)
  expect(readFileSync(log, 'utf8').trim().split('\n').length).toBeGreaterThanOrEqual(4)
})

describe.each(presets)('the session of %s', (preset) => {
  it('the session of a coding agent is resumed by the next turn of the same session, with the new request only', async () => {
    const { spec, agentId } = await agentOf(preset, { instructions: 'Be very brief.' })
    const sessionId = `talk-${preset}`
    const first = await b.begin(spec, { agentId, sessionId, instruction: 'Remember the word heron. Answer OK.' })
    await b.ended(first)
    const second = await b.begin(spec, { agentId, sessionId, instruction: 'Which word? Answer with the word.' })
    expect(await b.ended(second)).toMatchObject({ outcome: 'success', text: expect.stringMatching(/heron/i) })
    expect(await sessionOf(b, second)).toMatchObject({ answered: true, resumed: true })
    const request = '# Task\n\nWhich word? Answer with the word.\n'
    expect(isReal ? [request] : promptsOf(preset, join(b.folder, spec.cwd!))).toContain(request)
  })

  it('the session of a coding agent is replaced by one new session, with the complete prompt, if it does not exist any more', async () => {
    const { spec, agentId, folder } = await agentOf(preset, { instructions: 'Be very brief.' })
    const sessionId = `lost-${preset}`
    await b.ended(await b.begin(spec, { agentId, sessionId, instruction: 'Answer OK.' }))
    if (preset === 'aider') for (const file of readdirSync(folder)) await rm(join(folder, file))
    const gone = preset === 'opencode' ? 'ses_0000000000000000000000' : '00000000-0000-4000-8000-000000000000'
    await b.t.all('update state.program_sessions set program_session_id = $1 where session_key = $2', gone, sessionId)
    const turn = await b.begin(spec, { agentId, sessionId, instruction: 'Answer OK again.' })
    expect(await b.ended(turn)).toMatchObject({ outcome: 'success', taskEvents: 1 })
    expect(await sessionOf(b, turn)).toMatchObject({ answered: true, resumed: false })
    const complete = '# Instructions\n\nBe very brief.\n\n# Task\n\nAnswer OK again.\n'
    // Codex’s prompt ends with a mark of the turn.
    const shown = isReal ? [complete] : promptsOf(preset, folder)
    expect(shown.some((text) => text.startsWith(complete))).toBe(true)
  })
})

describe.runIf(!isReal)('a program whose sessions are counted', () => {
  it.each(presetNames)(
    'a %s that finished its work after its worker had stored the session, and before it stored anything else, repeats no call of its model',
    async (preset) => {
      const { turn, block, release, lines, die, folder } = await pausedProgram(b, preset, ['0'], true)
      expect(await sessionOf(b, turn)).toMatchObject({ answered: false })
      for (const verb of ['storeSession', 'record'] as const) block(verb)
      await release('0')
      await until('the program has finished', async () => lines().some(({ type }) => type === 'end') || undefined)
      await die()
      await b.reclaimed()
      await b.worker.step()
      expect(await b.ended(turn)).toMatchObject({ outcome: 'success', taskEvents: 1 })
      const [answers, ...work] = callsOf(preset, folder).toReversed()
      expect(work).toEqual([1, 1, 1, 1, 1])
      expect(answers).toBe(2)
      // Codex prints what its complete session has used, also before the kill.
      expect(await usedBy(turn)).toBeGreaterThanOrEqual(preset === 'codex' ? tokensOf(preset, folder) : 0)
      expect(await usedBy(turn)).toBeLessThanOrEqual(tokensOf(preset, folder))
    },
  )

  it.each(presetNames.filter((preset) => preset !== 'aider'))(
    'a %s that resumes its session is charged for the calls of its own run only',
    async (preset) => {
      const { spec, agentId, folder } = await agentOf(preset)
      const more = { agentId, sessionId: `charged-${preset}` }
      const turns: string[] = []
      for (let run = 0; run < 3; run += 1) {
        turns.push(await b.begin(spec, more))
        await b.ended(turns.at(-1)!)
      }
      const used = await Promise.all(turns.map(usedBy))
      expect(used).toEqual([209_000, 209_000, 209_000])
      expect(tokensOf(preset, folder)).toBe(627_000)
    },
  )

  it('what a program without limits printed before its worker was killed is recorded once', async () => {
    const { turn, release, die } = await pausedProgram(b, 'claude', ['3'], true)
    const printed = await until('the usage is recorded', async () => (await usedBy(turn)) || undefined)
    expect(printed).toBeGreaterThan(32_000)
    await die()
    await release('3')
    await b.reclaimed()
    await b.worker.step()
    const { steps } = await b.ended(turn)
    const [before, after] = steps.map(({ metadata }) => (metadata['usage'] as { total_tokens: number }).total_tokens)
    expect(before).toBe(printed)
    expect(await usedBy(turn)).toBe(printed + after!)
  })

  it('the resume of a session is tried once: a program that ends at once is started a second time, not a third', async () => {
    const { spec, agentId, folder } = await agentOf('codex')
    await b.ended(await b.begin(spec, { agentId, sessionId: 'twice' }))
    const bin = join(folder, 'bin')
    await mkdir(bin)
    await writeFile(join(bin, 'codex'), `#!/bin/sh\necho "$*" >> ${folder}/started\nexit 1\n`, { mode: 0o755 })
    const done = await withFolderOnPath(bin, async () => b.ended(await b.begin(spec, { agentId, sessionId: 'twice' })))
    expect(done).toMatchObject({ outcome: 'failed', error: 'command_exit_1', taskEvents: 1 })
    const started = readFileSync(join(folder, 'started'), 'utf8').trim().split('\n')
    expect(started).toEqual([expect.stringMatching(/ resume \S+ -$/), expect.not.stringContaining('resume')])
    expect(done.steps.map(({ status }) => status)).toEqual(['failed', 'failed'])
  })

  it('a session is not used with "resume: never", in another folder, or by another program', async () => {
    const { spec, agentId } = await agentOf('claude')
    const sessionId = 'apart'
    await b.ended(await b.begin(spec, { agentId, sessionId }))
    const others: readonly Partial<CommandSpec>[] = [
      { ...spec, resume: 'never' },
      { ...spec, cwd: 'work' },
      { ...spec, preset: 'gemini', args: mayWrite.gemini },
      { ...spec, args: ['--continue'] },
    ]
    for (const other of others) {
      const done = await b.ended(await b.begin(other, { agentId, sessionId, instruction: 'Which word?' }))
      expect(done.text).toContain('unknown to me')
    }
  })

  it('a program that resumes its session gets what failed from the board instead of the task', async () => {
    const { spec, agentId, folder } = await agentOf('claude', { instructions: 'Be brief.' })
    const sessionId = 'task-T-1'
    const resume = { agentId, sessionId, payload: { resume_prompt: 'The check failed: 1 of 3 tests.' } }
    const instruction = 'The complete task.\nstand-in: later write fixed'
    await b.ended(await b.begin(spec, { ...resume, instruction }))
    await b.ended(await b.begin(spec, { ...resume, instruction }))
    expect(existsSync(join(folder, 'fixed'))).toBe(true)
    expect(promptsOf('claude', folder).map((text) => text.slice(-60))).toEqual([
      expect.stringContaining('stand-in: later'),
      '# Task\n\nThe check failed: 1 of 3 tests.\n',
    ])
  })
})
