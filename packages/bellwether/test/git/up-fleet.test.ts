/** A short form of `npm run worktrees`. */
import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/git-repository.js'
import { isToday, thorough } from '../support/thorough.js'
import { runFleet } from './up-fleet.js'

const load = thorough ? { agents: 8, tasks: 40, kills: 20 } : { agents: 3, tasks: 6, kills: 3 }

// It takes about half a minute of CPU time.
it.runIf(isToday('worktrees'))(
  `${load.tasks} tasks of ${load.agents} agents on one repository, with ${load.kills} kills of workers, guardians and up, reach the base exactly once and leave nothing behind`,
  { timeout: 900_000 },
  async () => {
    const lines: string[] = []
    const folder = await temporaryFolder()
    const say = (line: string) => void lines.push(line)
    const report = await runFleet({ ...load, folder, seed: 7, withinMs: 600_000, say })
    expect({ ...report, lines: report.violations.length === 0 ? [] : lines }).toMatchObject({
      violations: [],
      lines: [],
    })
    expect(Object.keys(report.kills).sort()).toEqual(['guardian', 'up', 'worker'])
  },
)
