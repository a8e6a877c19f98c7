import { describe, expect, it } from 'vitest'
import {
  axisText,
  barText,
  barTime,
  blocksOf,
  colourOf,
  highestOf,
  isEmptyChart,
  niceMax,
  pathOf,
  summaryOf,
  type Chart,
} from './chart.js'

const chartOf = (more: Partial<Chart>): Chart => ({
  chart: 'turns',
  unit: 'turns',
  by_agent: true,
  series: [],
  ...more,
})
const seriesOf = (name: string, values: readonly (number | null)[], total: number | null = null) => ({
  name,
  values,
  total,
})

describe('the scale of a chart', () => {
  it('ends at a round number above the highest bar', () => {
    expect([0, 1, 3, 7, 12, 41, 99, 100, 101].map((most) => niceMax(most, 'turns'))).toEqual([
      2, 2, 4, 10, 20, 50, 100, 100, 200,
    ])
    expect([0.2, 350, 1_001, 700_000, 5_000_000, 1e9].map((most) => niceMax(most, 'ms'))).toEqual([
      0.2, 400, 2_000, 1_200_000, 7_200_000, 1e9,
    ])
    expect(niceMax(0, 'micros')).toBe(1_000_000)
  })

  it('is as high as the sum of stacked series, and as the highest line', () => {
    const series = [seriesOf('success', [1, 5, null]), seriesOf('failed', [2, 1, 4])]
    expect(highestOf(chartOf({ series }), 3)).toBe(6)
    expect(highestOf(chartOf({ chart: 'queue_depth', series }), 3)).toBe(5)
  })

  it('is labelled in few characters', () => {
    expect([
      axisText('turns', 20_000),
      axisText('tokens', 2_500_000),
      axisText('micros', 4_000_000),
      axisText('micros', 500_000),
      axisText('ms', 7_200_000),
      axisText('ms', 400),
    ]).toEqual(['20 k', '2.5 M', '$4', '$0.50', '2 h', '400 ms'])
  })
})

describe('bars and lines', () => {
  it('stack the series of a bar and leave out what is zero', () => {
    expect(blocksOf([seriesOf('a', [1, 0]), seriesOf('b', [3, 2])], 2, 4)).toEqual([
      [{ bar: 0, from: 0, to: 0.25 }],
      [
        { bar: 0, from: 0.25, to: 1 },
        { bar: 1, from: 0, to: 0.5 },
      ],
    ])
  })

  it('interrupt a line where nothing was measured, and draw a single value as a dot', () => {
    expect(pathOf([null, 5, 10, null, 0], 10, 100)).toBe('M1.5 50L1.5 50L2.5 0M4.5 100L4.5 100')
    expect(pathOf([null], 10, 100)).toBe('')
  })
})

describe('the text of a bar', () => {
  it('lists its series with units, and distinguishes nothing from not measured', () => {
    const chart = chartOf({
      unit: 'ms',
      series: [seriesOf('p50', [1_500, 0, null], 1_500), seriesOf('p95', [0, 0, null])],
    })
    expect([0, 1, 2].map((bar) => barText(chart, bar))).toEqual(['p50 1.5 s', 'nothing', 'not measured'])
    expect(summaryOf(chart)).toBe('p50 1.5 s, p95 –')
    expect([isEmptyChart(chart), isEmptyChart(chartOf({ series: [seriesOf('x', [0, null])] }))]).toEqual([false, true])
  })

  it('names a day in UTC, whatever the zone of the browser', () => {
    expect(barTime('30d', '2027-03-28T00:00:00.000Z', 86_400)).toBe('2027-03-28 (UTC)')
    expect(barTime('24h', '2027-03-28T10:00:00.000Z', 3_600)).toMatch(/^2027-03-28 \d\d:\d\d–\d\d:\d\d \S+$/)
  })

  it('gives the same outcome the same colour, and all others a quiet one', () => {
    expect(colourOf('turns', seriesOf('failed', []), 0)).toBe('var(--bad)')
    expect(colourOf('cost_by_agent', seriesOf('(others)', []), 3)).toBe('var(--rest)')
    expect(colourOf('cost_by_agent', seriesOf('coder', []), 9)).toBe('var(--series-2)')
  })
})
