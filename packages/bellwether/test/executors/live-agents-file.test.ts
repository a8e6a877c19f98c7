/** The agents file of `up`: what is loaded when it changes, is held back, or is broken. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { expect, it, onTestFinished } from 'vitest'
import { openLiveAgentsFile } from '../../src/runtime/parts/worker/live-agents-file.js'
import type { TurnContext } from '../../src/worker/agent.js'
import { testFolder } from '../support/postgres.js'
import { recordedLog } from '../support/recorded-log.js'
import { until } from '../support/until.js'

const source = (text: string) => `export default {\n  ann: async () => ({ deliver: { text: '${text}' } }),\n}\n`

async function opened(text: string, agents: Readonly<Record<string, 'function' | 'command'>> = {}) {
  const folder = await testFolder()
  const control = join(folder, 'control')
  await mkdir(control)
  const file = join(folder, 'agents.mjs')
  const copy = join(control, 'agents.mjs')
  await writeFile(file, text)
  await writeFile(copy, text)
  await mkdir(join(control, 'agents'))
  for (const [name, executor] of Object.entries(agents))
    await writeFile(
      join(control, 'agents', `${name}.md`),
      `---\nexecutor: ${executor}\n${executor === 'command' ? 'command: [cat]\n' : ''}---\n`,
    )
  const stop = new AbortController()
  onTestFinished(async () => {
    stop.abort()
    await rm(folder, { recursive: true, force: true })
  })
  const recorded = recordedLog()
  const live = await openLiveAgentsFile({
    ...{ file, folder, control, clock: systemClock, log: recorded.log, signal: stop.signal },
  })
  const result = async () => live.current?.agents['ann']?.run({} as TurnContext)
  const logged = (message: string) => until(message, async () => recorded.lines.find((one) => one.message === message))
  return { file, copy, live, result, logged, lines: recorded.lines }
}

it('an accepted change is loaded, and one that is not accepted is not', async () => {
  const { file, copy, live, result, lines } = await opened(source('one'))
  expect([await result(), live.isCurrent(), live.problemOf('ann')]).toEqual([
    { deliver: { text: 'one' } },
    true,
    undefined,
  ])
  expect(live.problemOf('bob')).toBe('agents.mjs has no function "bob". It has ann. Add one with this name')
  expect(lines.some(({ message }) => message.startsWith('functions without an agent file'))).toBe(true)
  await writeFile(file, source('held back'))
  // A copy that differs from the file is not loaded either: its text is not on the disk.
  await writeFile(copy, source('other'))
  expect(live.isCurrent()).toBe(false)
  await writeFile(file, source('two'))
  await writeFile(copy, source('two'))
  await until('the new version is loaded', async () =>
    JSON.stringify(await result()).includes('two') ? true : undefined,
  )
  expect(lines.filter(({ message }) => message === 'agents file loaded')).toHaveLength(2)
})

it('agents whose function is not in the file are named when it is loaded', async () => {
  const { file, copy, live, lines } = await opened(source('one'), { ann: 'function', bob: 'function', cat: 'command' })
  const named = () => lines.filter(({ message }) => message === 'agents whose function is not in the agents file')
  expect(named()).toMatchObject([{ level: 'error', fields: { part: 'bob', file: 'agents.mjs' } }])
  const both = `${source('one')}\n`.replace('ann', "'*': async () => ({ deliver: { text: 'any' } }), ann")
  await writeFile(file, both)
  await writeFile(copy, both)
  await until('the new version is loaded', async () => (live.current?.agents['*'] === undefined ? undefined : true))
  expect(named()).toHaveLength(1)
})

it('a function may return a text, and one that returns or reads something else fails with what to write instead', async () => {
  expect(await (await opened("export default { ann: () => 'hello' }\n")).result()).toEqual({
    deliver: { text: 'hello' },
  })
  await expect((await opened('export default { ann: async () => ({ text: 1 }) }\n')).result()).rejects.toThrow(
    /must return a text, \{ deliver: \{ text \} \} or \{ suspend: \{ calls \} \} \(got keys: text\)$/,
  )
  await expect((await opened('export default { ann: (turn) => turn.instruction }\n')).result()).rejects.toThrow(
    /Read the task with: const \{ context \} = await turn\.hydrate\(\)/,
  )
})

it('a broken file is reported by file and line, and the last version stays in use', async () => {
  const { file, copy, live, result, logged } = await opened(source('one'))
  const broken = 'export default {\n  ann: async () => 1,\n  bob: = 3\n}\n'
  await writeFile(file, broken)
  await writeFile(copy, broken)
  expect(await logged('agents file invalid')).toMatchObject({
    fields: { problem: expect.stringMatching(/^agents\.mjs:3: [^]*Unexpected token/), last_valid_version_in_use: true },
  })
  expect([await result(), live.problemOf('ann')]).toEqual([{ deliver: { text: 'one' } }, undefined])
  expect(live.problemOf('bob')).toMatch(/^agents\.mjs:3: /)
})

it('a file that throws, or is broken at the start, fails its turns with file and line', async () => {
  const { live } = await opened("const a = 1\nthrow new Error('no key')\nexport default { ann: async () => a }\n")
  expect(live.current).toBeUndefined()
  expect(live.problemOf('ann')).toMatch(/^agents\.mjs:2: .*no key$/)
})
