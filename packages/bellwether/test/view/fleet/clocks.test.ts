/** Tests hosts whose clocks differ by hours, feeding one view. */
import { mkdirSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { systemClock } from '@bellwether/base'
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../../support/until.js'
import { Fleet } from './fleet.js'

const hours = 3_600
const in2050 = 2_524_608_000

describe('sensors with wrong clocks', () => {
  const fleet = new Fleet({ session: 2 })
  afterEach(() => fleet.end())

  it('[V6.7] [V6.4] [V6.3] with clocks two hours ahead and behind, the view equals the disk and the logical clock follows the files', async () => {
    mkdirSync(fleet.at('d'))
    for (let f = 0; f < 20; f += 1) writeFileSync(fleet.at('d', `f${f}`), 'x')
    await fleet.serve()
    fleet.sensor('ahead', { skew: 2 * hours })
    await fleet.leads('ahead')
    fleet.sensor('behind', { skew: -2 * hours })
    await fleet.connected('ahead', 'behind')

    const skewSeconds = async () => {
      const stats = (await fleet.stats())!
      return Math.abs(stats.logical_now - systemClock.wallMs() / 1_000)
    }
    async function round(name: string): Promise<void> {
      writeFileSync(fleet.at('d', name), 'new')
      writeFileSync(fleet.at('d', 'from-the-future'), name)
      utimesSync(fleet.at('d', 'from-the-future'), in2050, in2050)
      unlinkSync(fleet.at('d', 'f1'))
      await fleet.equal()
      await fleet.audited(2)
      // No audit recreates the deleted file, and no closed file is a suspect.
      await fleet.equal()
      await until('no suspects', async () => (await fleet.stats())?.suspect_file_count === 0 || undefined)
      expect(await skewSeconds()).toBeLessThan(60)
      writeFileSync(fleet.at('d', 'f1'), 'born again')
      utimesSync(fleet.at('d', 'f1'), 1_500_000_000, 1_500_000_000)
      await fleet.equal()
    }
    await round('one')
    fleet.sensors.get('ahead')!.signal('SIGKILL')
    await fleet.leads('behind')
    await round('two')
  })
})
