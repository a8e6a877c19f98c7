/** Reads the environment of a worker's process as an agent of the same account would. */
import { spawn, type StdioOptions } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { programOf, runCli } from '../support/process.js'
import { canBeOrdinary, ordinaryUser } from '../../../../scripts/ordinary-user.js'

const program = programOf(fileURLToPath(new URL('../support/processes/hidden-main.ts', import.meta.url)))

it.runIf(canBeOrdinary && process.platform === 'linux')(
  'another process of the same account cannot read the environment of a hidden process',
  async () => {
    const read = (word: string) =>
      runCli([word], { cwd: '/', program, env: { SECRET: 'hush' }, ...ordinaryUser }).ready()
    expect(await read('show')).toMatchObject({ isHidden: false, status: 0, found: true })
    expect(await read('hide')).toMatchObject({ isHidden: true, status: 1, found: false })
  },
)

it.runIf(process.platform === 'linux')(
  'a program of a hidden process inherits no file that its parent left open',
  async () => {
    // Node itself closes the first 16.
    const stdio: StdioOptions = ['ignore', 'pipe', 'inherit', ...Array<'ignore'>(17).fill('ignore'), 'pipe']
    const read = async (word: string) => {
      const child = spawn(process.execPath, [...program, word], { stdio })
      return JSON.parse(await text(child.stdout!)) as object
    }
    expect(await read('show')).toMatchObject({ inherited: true })
    expect(await read('hide')).toMatchObject({ isHidden: true, inherited: false })
  },
)
