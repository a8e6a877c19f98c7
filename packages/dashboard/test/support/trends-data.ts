/** Charts of every kind: full ones, one with gaps, one without values; names that an attacker would choose. */
import { trendRanges, type TrendChart, type TrendRangeName, type TrendUnit } from '@bellwether/protocol/trends'
import type { Trends } from '../../src/api/types.js'
import type { Say } from './strings.js'

/** The same values for the same chart and series, between 0 and `most`. */
const wave = (bars: number, most: number, seed: number) =>
  Array.from({ length: bars }, (_, bar) => {
    const day = 1 + Math.sin((2 * Math.PI * (bar + seed)) / 24)
    return Math.round((most / 2) * day * (0.6 + 0.4 * Math.abs(Math.sin(bar * 7.3 + seed * 3.1))))
  })

export function trendsOf(say: Say, range: TrendRangeName, agent: string | undefined, isEmpty: boolean): Trends {
  const { barSeconds, bars } = trendRanges[range]
  const barMs = barSeconds * 1_000
  const toMs = (Math.floor(Date.now() / barMs) + 1) * barMs
  const starts = Array.from({ length: bars }, (_, bar) => new Date(toMs - (bars - bar) * barMs).toISOString())
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
  const series = (name: string, values: readonly (number | null)[], total: number | null) => ({ name, values, total })
  const summed = (name: string, most: number, seed: number) => {
    const values = isEmpty ? wave(bars, 0, 0) : wave(bars, most, seed)
    return series(name, values, sum(values))
  }
  const line = (name: string, most: number, seed: number) => {
    // Nothing was measured for a while.
    const values = wave(bars, most, seed).map((value, bar) => (isEmpty || (bar > 3 && bar < 6) ? null : value))
    return series(name, values, isEmpty ? null : most)
  }
  const chart = (name: TrendChart, unit: TrendUnit, all: Trends['charts'][number]['series'], by_agent = true) => ({
    chart: name,
    unit,
    by_agent,
    series: all,
  })
  const named = (names: readonly string[], most: number) =>
    isEmpty ? [] : names.map((name, at) => summed(say(name), most / (at + 1), at))
  return {
    range,
    agent: agent ?? null,
    from: starts[0]!,
    to: new Date(toMs).toISOString(),
    bar_seconds: barSeconds,
    bars: starts,
    counted_until: new Date().toISOString(),
    charts: [
      chart('turns', 'turns', [
        summed('success', 90, 0),
        summed('failed', 14, 3),
        summed('timeout', 5, 9),
        summed('canceled', 3, 15),
      ]),
      chart('queue_depth', 'turns', [line('mean', 12, 2), line('highest', 30, 2)], false),
      chart('queue_time', 'ms', [line('p50', 420, 1), line('p95', 3_900, 1)]),
      chart('run_time', 'ms', [line('p50', 41_000, 5), line('p95', 610_000, 5)]),
      chart('cost_by_agent', 'micros', named(['coder', 'reviewer', 'researcher', 'tester', '(others)'], 9_000_000)),
      chart('cost_by_model', 'micros', named(['claude-opus', 'gpt-large', '(no name)'], 12_000_000)),
      chart('tokens', 'tokens', [
        summed('input', 700_000, 1),
        summed('output', 90_000, 2),
        summed('cache_read', 2_400_000, 3),
        summed('cache_write', 120_000, 4),
      ]),
      chart('interventions', 'interventions', named(['tool_timeout', 'reclaim', 'reap'], 6)),
      chart('workers', 'slots', [line('busy', 22, 4), line('slots', 32, 4)]),
    ],
  }
}
