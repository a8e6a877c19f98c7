import { rm } from 'node:fs/promises'
import { expect, it, onTestFinished } from 'vitest'
import { testFolder } from '../support/postgres.js'
import { runCli, type Cli } from '../support/process.js'
import { until } from '../support/until.js'

const crewPattern = /workers are ready \(pids ([\d, ]+)\)/

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

it(
  'the demo survives its own death, keeps others out, and ends with nothing stuck and nothing lost',
  { timeout: 90_000 },
  async () => {
    const cwd = await testFolder()
    onTestFinished(() => rm(cwd, { recursive: true, force: true }))
    const start = (): Cli => {
      const demo = runCli(['demo'], { cwd })
      onTestFinished(async () => {
        demo.signal('SIGTERM')
        await demo.ended
      })
      return demo
    }

    const first = start()
    const crew = await until(
      'the crew is ready',
      async () => crewPattern.exec(first.stdout())?.[1]?.split(', ').map(Number),
      40_000,
    )
    const second = start()
    expect(await second.ended).toBe(1)
    expect(second.stderr()).toContain('[folder_in_use]')
    first.signal('SIGKILL')
    await until('its children follow it', async () => (crew.some(isAlive) ? undefined : true))

    const third = start()
    expect(await third.ended).toBe(0)
    expect(third.stdout()).toContain('PostgreSQL of an earlier run taken over')
    expect(third.stdout()).toMatch(/kill -9 \d+: marathon’s worker is dead after lap \d+ of 14/)
    expect(third.stdout()).toMatch(/\nturns +76 in \d+ s\nby outcome +success 74, canceled 2\n/)
    expect(third.stdout()).toMatch(/\ninterventions +.*reclaim \d+.*tool_timeout 1\n/)
    expect(third.stdout()).toMatch(/\ntask events per turn +1\nstuck +0\nlost +0\n/)
  },
)
