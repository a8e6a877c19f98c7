/** Reads the environment of a worker's process as an agent of the same account would. */
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
    expect(await read('show')).toEqual({ isHidden: false, status: 0, found: true })
    expect(await read('hide')).toEqual({ isHidden: true, status: 1, found: false })
  },
)
