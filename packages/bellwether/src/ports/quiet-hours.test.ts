import { expect, it } from 'vitest'
import { openQuietHours, type QuietSettings } from './quiet-hours.js'

const defaults = { quiet_time_zone: 'UTC', urgent_kinds: 'escalated, no_worker' }
const quiet = (settings: Partial<QuietSettings>, at: string) =>
  openQuietHours({ ...defaults, ...settings })!.isQuiet(Date.parse(at))

it.each([
  ['22:00-07:00', 'UTC', '2027-01-01T21:59:00Z', false],
  ['22:00-07:00', 'UTC', '2027-01-01T22:00:00Z', true],
  ['22:00-07:00', 'UTC', '2027-01-01T06:59:59Z', true],
  ['22:00-07:00', 'UTC', '2027-01-01T07:00:00Z', false],
  ['12:30-13:30', 'UTC', '2027-01-01T13:00:00Z', true],
  ['12:30-13:30', 'UTC', '2027-01-01T00:00:00Z', false],
  // Summer and winter time.
  ['22:00-07:00', 'Europe/Berlin', '2027-07-01T20:30:00Z', true],
  ['22:00-07:00', 'Europe/Berlin', '2027-01-01T20:30:00Z', false],
  ['22:00-07:00', 'Asia/Kathmandu', '2027-01-01T01:10:00Z', true],
])('counts %s in %s at %s as quiet: %s', (hours, zone, at, expected) => {
  expect(quiet({ quiet_hours: hours, quiet_time_zone: zone }, at)).toBe(expected)
})

it('has none without a setting, names the urgent kinds, and rejects invalid values with an example', () => {
  expect(openQuietHours(defaults)).toBeUndefined()
  expect(openQuietHours({ ...defaults, quiet_hours: '22:00-07:00' })!.urgent).toEqual(['escalated', 'no_worker'])
  for (const hours of ['22-7', '24:00-07:00', '07:00-07:00', 'night'])
    expect(() => quiet({ quiet_hours: hours }, '2027-01-01')).toThrow(`Invalid quiet_hours: "${hours}"`)
  const zone = { quiet_hours: '22:00-07:00', quiet_time_zone: 'Europe/Berln' }
  expect(() => quiet(zone, '2027-01-01')).toThrow('Invalid quiet_time_zone: "Europe/Berln"')
})
