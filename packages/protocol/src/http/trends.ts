/** Trends: counts per bar of time of what ended, what it cost and what waited. */
import { z } from '../deferred.js'
import { trendCharts, trendRangeNames, trendUnits } from '../trends.js'
import { inProject, list, time, token, type Route } from './shapes.js'

const series = z.object({
  name: z.string(),
  values: list(z.number().nullable()).describe('one per bar; null: nothing was measured'),
  total: z
    .number()
    .nullable()
    .describe('over the whole range: the sum, for times the percentile, for samples the mean or the maximum'),
})

const chart = z.object({
  chart: z.enum(trendCharts),
  unit: z.enum(trendUnits).describe('`micros`: millionths of a dollar'),
  by_agent: z.boolean().describe('whether the agent filter applies; the queue is sampled per project'),
  series: list(series),
})

const trends = z.object({
  range: z.enum(trendRangeNames),
  agent: z.string().nullable(),
  from: time,
  to: time.describe('the end of the last bar, which lies in the future'),
  bar_seconds: z.number(),
  bars: list(time).describe('the start of each bar, at a multiple of its length in UTC'),
  counted_until: time.describe('turns that ended later are not counted yet'),
  charts: list(chart),
})
export type Trends = z.output<typeof trends>
export type TrendsRow = z.input<typeof trends>

const query = z.object({
  range: z.enum(trendRangeNames).default('24h'),
  agent: token.optional().describe('only what this agent did'),
})

export const trendRoutes = {
  'GET /projects/:project/trends': {
    summary: 'Read turns, times, costs, tokens, interventions and worker slots over time',
    description:
      'A turn with its times, tokens and costs counts when it ends. Times are the 50th and 95th percentile of histograms, less than 4.5 % off. Queue and workers are sampled once per minute; the slots are those of all worker targets of the project’s agents.',
    params: inProject,
    query,
    responses: { 200: trends },
  },
  'GET /projects/:project/trends.csv': {
    summary: 'Read the same as CSV: one line per chart, series and bar',
    params: inProject,
    query: query.extend({ chart: z.enum(trendCharts).optional().describe('only this chart') }),
    responses: { 200: 'text/csv' },
  },
} as const satisfies Record<string, Route>
