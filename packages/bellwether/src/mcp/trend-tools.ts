/** The tool that reads what happened over time. */
import { trendCharts, trendRangeNames } from '@bellwether/protocol/trends'
import { z } from 'zod'
import { tool, type Tool } from './tool.js'

export const trendTools: readonly Tool[] = [
  tool({
    name: 'read_trends',
    title: 'Read trends',
    description:
      'Reads what ended in a range of time: turns by outcome, queue and run time (p50, p95, in ms), costs by agent and model (micros: millionths of a dollar), tokens, interventions, queue depth and worker slots. Returns totals, and the values per bar of the chart that you name.',
    readOnly: true,
    input: z.strictObject({
      range: z.enum(trendRangeNames).default('24h').describe('how far back'),
      agent: z.string().max(120).optional().describe('only what this agent did'),
      chart: z.enum(trendCharts).optional().describe('also return the values per bar of this chart'),
    }),
    async run({ range, agent, chart }, { client }) {
      const { bars, charts, from, counted_until } = await client.ask('GET /projects/:project/trends', {
        query: { range, agent },
      })
      const data = charts.map((one) => ({
        chart: one.chart,
        unit: one.unit,
        ...(one.chart === chart ? { bars } : {}),
        series: one.series.map(({ name, total, values }) =>
          one.chart === chart ? { name, total, values } : { name, total },
        ),
      }))
      return { summary: `${charts.length} charts from ${from} to ${counted_until}`, data }
    },
  }),
]
