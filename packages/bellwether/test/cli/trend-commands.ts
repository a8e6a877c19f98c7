/** `bellwether trends`, against the running `up` of commands.test.ts. */
import type { Trends } from '@bellwether/protocol/http'
import { expect, it } from 'vitest'
import { until } from '../support/until.js'
import type { RunningUp } from './running-up.js'

export function trendCommands(running: () => RunningUp): void {
  it('shows trends as totals, by agent, model and day, and as CSV', async () => {
    const up = running()
    await up.run('turn', 'run', 'echo', 'count me')
    const ended = await until('the PMO has counted a turn', async () => {
      const [trends] = (await up.run('trends', '--agent', 'echo', '--json')).lines as unknown as Trends[]
      const total = trends!.charts[0]!.series[0]!.total ?? 0
      return total > 0 ? total : undefined
    })
    const totals = await up.run('trends', '-a', 'echo')
    expect(totals.out).toMatch(/^agent echo, \d{4}-\d\d-\d\d .* UTC\n\n {2}turns ended {2,}success \d+, failed \d+/)
    expect(totals.out).toContain('queue time')
    const days = await up.run('trends', '-a', 'echo', '--by', 'day')
    expect(days.out).toMatch(/^DAY \(UTC\) +TURNS +NOT SUCCESSFUL +TOKENS +COST$/m)
    for (const by of ['agent', 'model'])
      expect((await up.run('trends', '-a', 'echo', '--by', by)).out).toContain(
        'No turn that ended in this time reported',
      )
    const { out } = await up.run('trends', '-a', 'echo', '--chart', 'turns')
    const lines = out.trimEnd().split('\r\n')
    expect([lines[0], lines.length]).toEqual(['chart,series,unit,starts_at,value', 1 + 4 * 24])
    const successes = lines
      .filter((line) => line.startsWith('turns,success,'))
      .map((line) => Number(line.split(',')[4]))
    expect(successes.reduce((sum, value) => sum + value, 0)).toBeGreaterThanOrEqual(ended)
    expect(await up.run('trends', '--by', 'day', '--since', '7d')).toMatchObject({
      code: 2,
      err: expect.stringContaining('use --since 30d or --since 90d'),
    })
  })
}
