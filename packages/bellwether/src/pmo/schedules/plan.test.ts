import { expect, it } from 'vitest'
import { planFires, type Moment, type Plan, type PlanKeys } from './plan.js'
import { timingOf, type Timing } from './timing.js'

const hour = 3_600_000
const hourly = timingOf({ every: '1h', time_zone: 'UTC' }) as Timing
const defaults: PlanKeys = { missed: 'latest', missed_max: 10, overlap: 'skip', queue_max: 10 }
const plan = (moment: Partial<Moment>, keys: Partial<PlanKeys> = {}): Plan =>
  planFires(hourly, { ...defaults, ...keys }, { dueMs: 10 * hour, nowMs: 10 * hour, open: 0, ...moment })
const missed = (at: number, count: number) => ({ instantMs: at * hour, count, reason: 'missed' as const })
const overlap = (at: number, count: number) => ({ instantMs: at * hour, count, reason: 'overlap' as const })

it.each<[string, Plan, Pick<Plan, 'start' | 'skipped'>]>([
  ['an instant on time', plan({}), { start: [10 * hour], skipped: [] }],
  [
    'a minute late, with skip',
    plan({ nowMs: 10 * hour + 60_000 }, { missed: 'skip' }),
    { start: [10 * hour], skipped: [] },
  ],
  [
    'later, with skip',
    plan({ nowMs: 10 * hour + 60_001 }, { missed: 'skip' }),
    { start: [], skipped: [missed(10, 1)] },
  ],
  ['four hours later, with latest', plan({ nowMs: 14.5 * hour }), { start: [14 * hour], skipped: [missed(13, 4)] }],
  [
    'four hours later, with skip',
    plan({ nowMs: 14.5 * hour }, { missed: 'skip' }),
    { start: [], skipped: [missed(14, 5)] },
  ],
  [
    'four hours later, with all and a queue',
    plan({ nowMs: 14.5 * hour }, { missed: 'all', missed_max: 3, overlap: 'queue' }),
    { start: [12 * hour, 13 * hour, 14 * hour], skipped: [missed(11, 2)] },
  ],
  [
    'four hours later, with all and no overlap',
    plan({ nowMs: 14.5 * hour }, { missed: 'all' }),
    { start: [10 * hour], skipped: [overlap(14, 4)] },
  ],
  ['while the last one is open', plan({ open: 1 }), { start: [], skipped: [overlap(10, 1)] }],
  ['while the queue has room', plan({ open: 9 }, { overlap: 'queue' }), { start: [10 * hour], skipped: [] }],
  ['while the queue is full', plan({ open: 10 }, { overlap: 'queue' }), { start: [], skipped: [overlap(10, 1)] }],
  [
    'while one is open that it replaces',
    plan({ open: 1 }, { overlap: 'replace' }),
    { start: [10 * hour], skipped: [] },
  ],
  [
    'four hours later, with all and replace',
    plan({ nowMs: 14.5 * hour, open: 1 }, { missed: 'all', overlap: 'replace' }),
    { start: [14 * hour], skipped: [overlap(13, 4)] },
  ],
  ['after the clock was set back', plan({ nowMs: 8 * hour }), { start: [], skipped: [] }],
  ['after ten years', plan({ nowMs: 87_660 * hour }), { start: [87_660 * hour], skipped: [missed(87_659, 999)] }],
])('plans %s', (_, found, expected) => {
  expect(found).toMatchObject(expected)
})

it('continues with the first instant after now, whatever was due', () => {
  expect(plan({ nowMs: 14.5 * hour }).nextMs).toBe(15 * hour)
  expect(plan({ nowMs: 8 * hour }).nextMs).toBe(9 * hour)
})
