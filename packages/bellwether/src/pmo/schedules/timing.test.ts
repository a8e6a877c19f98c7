import { expect, it } from 'vitest'
import fc from 'fast-check'
import { timingOf, type Timing, type TimingKeys } from './timing.js'

const utc = { time_zone: 'UTC' } as const
function timing(keys: Partial<TimingKeys>): Timing {
  const found = timingOf({ ...utc, ...keys })
  if ('problem' in found) throw new Error(found.problem)
  return found
}
const problem = (keys: Partial<TimingKeys>) => {
  const found = timingOf({ ...utc, ...keys })
  return 'problem' in found ? `${found.key}: ${found.problem}` : undefined
}
const cron = (text: string, zone: string) => timing({ cron: text, time_zone: zone })

/** The next `count` instants after a time. */
function next(one: Timing, from: string, count: number): string[] {
  const found: string[] = []
  for (let ms = one.next(Date.parse(from)); ms !== undefined && found.length < count; ms = one.next(ms))
    found.push(new Date(ms).toISOString().replace(':00.000Z', 'Z'))
  return found
}

it.each([
  // The clock jumps from 02:00 to 03:00 on March 28 and back from 03:00 to 02:00 on October 31.
  ['Europe/Berlin', '30 2 * * *', '2027-03-27T00:00Z', ['2027-03-27T01:30Z', '2027-03-28T01:00Z', '2027-03-29T00:30Z']],
  ['Europe/Berlin', '30 2 * * *', '2027-10-30T12:00Z', ['2027-10-31T00:30Z', '2027-11-01T01:30Z']],
  ['America/New_York', '30 2 * * *', '2027-03-13T12:00Z', ['2027-03-14T07:00Z', '2027-03-15T06:30Z']],
  ['America/New_York', '30 1 * * *', '2027-11-06T12:00Z', ['2027-11-07T05:30Z', '2027-11-08T06:30Z']],
  // By 30 minutes: from 02:00 to 02:30 on October 3 and back from 02:00 to 01:30 on April 4.
  ['Australia/Lord_Howe', '15 2 * * *', '2027-10-02T00:00Z', ['2027-10-02T15:30Z', '2027-10-03T15:15Z']],
  ['Australia/Lord_Howe', '45 1 * * *', '2027-04-03T00:00Z', ['2027-04-03T14:45Z', '2027-04-04T15:15Z']],
  // The clock jumps from 00:00 to 01:00 on April 30, and goes back from 01:00 to 00:00 on October 31.
  ['Africa/Cairo', '30 0 * * *', '2027-04-28T12:00Z', ['2027-04-28T22:30Z', '2027-04-29T22:00Z', '2027-04-30T21:30Z']],
  ['Atlantic/Azores', '0 0 * * *', '2027-10-30T12:00Z', ['2027-10-31T00:00Z', '2027-11-01T01:00Z']],
  // No daylight saving time; half and quarter hours.
  ['Asia/Tokyo', '30 2 * * *', '2027-03-27T00:00Z', ['2027-03-27T17:30Z', '2027-03-28T17:30Z']],
  ['Asia/Kathmandu', '0 0 * * *', '2027-03-27T00:00Z', ['2027-03-27T18:15Z', '2027-03-28T18:15Z']],
  ['UTC', '30 2 * * *', '2027-03-27T12:00Z', ['2027-03-28T02:30Z', '2027-03-29T02:30Z']],
  // Leap days, the last day of a month, and the year.
  ['UTC', '0 0 29 2 *', '2027-01-01T00:00Z', ['2028-02-29T00:00Z', '2032-02-29T00:00Z']],
  ['Pacific/Apia', '0 12 L * *', '2027-01-01T00:00Z', ['2027-01-30T23:00Z', '2027-02-27T23:00Z']],
])(
  'fires a fixed local time once per day in %s at "%s", also if it does not exist or exists twice',
  (zone, text, from, expected) => {
    expect(next(cron(text, zone), from, expected.length)).toEqual(expected)
  },
)

it('fires a repeating local time in both passes of a repeated hour, and not in an hour that does not exist', () => {
  expect(next(cron('*/30 * * * *', 'Europe/Berlin'), '2027-10-30T23:45Z', 6)).toEqual([
    '2027-10-31T00:00Z',
    '2027-10-31T00:30Z',
    '2027-10-31T01:00Z',
    '2027-10-31T01:30Z',
    '2027-10-31T02:00Z',
    '2027-10-31T02:30Z',
  ])
  expect(next(cron('0 1-4 * * *', 'America/New_York'), '2027-03-14T05:00Z', 4)).toEqual([
    '2027-03-14T06:00Z',
    '2027-03-14T07:00Z',
    '2027-03-14T08:00Z',
    '2027-03-15T05:00Z',
  ])
})

// In Cairo, Havana and on the Azores the clock changes at midnight.
const zones = [
  ...['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Tokyo', 'America/Sao_Paulo', 'UTC'],
  ...['Africa/Cairo', 'America/Havana', 'Atlantic/Azores'],
]
const patterns = [
  '30 2 * * *',
  '0 0 * * *',
  '30 0 * * *',
  '*/15 * * * *',
  '45 1 * * 0',
  '0 0 1 * *',
  '15 2 * * *',
  '10,40 1-3 * * *',
  '@hourly',
]

it('finds the same instants backward as forward, each once and in order, around every change of the clocks', () => {
  const from = Date.UTC(2027, 0, 1)
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.constantFrom(...patterns),
      fc.integer({ min: 0, max: 365 * 24 * 60 }),
      (zone, text, minute) => {
        const one = cron(text, zone)
        const start = from + minute * 60_000
        const forward: number[] = []
        for (let ms = one.next(start); forward.length < 12; ms = one.next(ms!)) forward.push(ms!)
        expect(forward).toEqual([...new Set(forward)].sort((a, b) => a - b))
        expect(one.latest(forward.at(-1)!, 12)).toEqual(forward)
        expect(one.latest(forward.at(-1)! - 1, 11)).toEqual(forward.slice(0, 11))
      },
    ),
    { numRuns: 150 },
  )
})

it('counts an interval from its start, else from 1970, and has no instant before the start', () => {
  expect(next(timing({ every: '6h' }), '2027-01-01T01:00Z', 2)).toEqual(['2027-01-01T06:00Z', '2027-01-01T12:00Z'])
  const started = timing({ every: '1h30m', start: '2027-01-01T09:05:00+01:00' })
  expect(next(started, '2026-01-01T00:00Z', 3)).toEqual(['2027-01-01T08:05Z', '2027-01-01T09:35Z', '2027-01-01T11:05Z'])
  expect(started.latest(Date.parse('2027-01-01T10:00Z'), 5)).toHaveLength(2)
  expect(next(timing({ cron: '0 * * * *', start: '2027-01-01T09:00:00Z' }), '2026-01-01T00:00Z', 1)).toEqual([
    '2027-01-01T09:00Z',
  ])
})

it.each([
  [
    { cron: '61 * * * *' },
    /^cron: "61 \* \* \* \*" is not a cron expression: .*\. Write five fields .*for example cron = "30 2 \* \* 1-5"/,
  ],
  [{ cron: '* * * *' }, /^cron: .* has 4 fields\. Write five fields/],
  [{ cron: '0 0 12 * * *' }, /^cron: .* has 6 fields/],
  [{ cron: '2027-01-01T00:00:00' }, /^cron: .* has 1 fields/],
  [{ cron: '@reboot' }, /^cron: .* is not a cron expression/],
  [{ cron: '0 0 31 2 *' }, /^cron: .* never matches a date/],
  [{ every: '5s' }, /^every: "5s" must be from 10s to 366d, for example every = "15m"/],
  [{ every: '400d' }, /^every: .* must be from 10s/],
  [{ every: 'soon' }, /^every: "soon" is not an interval: write a number and s, m, h or d/],
  [{ every: '1h', time_zone: 'Europe/Berln' }, /^time_zone: .* did you mean "Europe\/Berlin"\?/],
  [{ every: '1h', time_zone: '+01:00' }, /^time_zone: .* is not an IANA time zone/],
])('rejects %j and says what was expected', (keys, expected) => {
  expect(problem(keys)).toMatch(expected)
})
