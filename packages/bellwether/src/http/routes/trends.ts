/** Trends of a project, as JSON and as CSV. */
import { trendsCsv } from '@bellwether/protocol/trends'
import { readTrends } from '../../kernel/reads/trends.js'
import type { Api, KernelParts } from '../api.js'

export function trendRoutes(api: Api, { kernel }: Pick<KernelParts, 'kernel'>): void {
  api('GET /projects/:project/trends', ({ params, query }) =>
    readTrends(kernel.db, { projectId: params.project, agentId: query.agent, range: query.range }),
  )

  api('GET /projects/:project/trends.csv', async ({ params, query }, reply) => {
    const { bars, charts } = await readTrends(kernel.db, {
      projectId: params.project,
      agentId: query.agent,
      range: query.range,
    })
    const chosen = charts.filter(({ chart }) => query.chart === undefined || query.chart === chart)
    const name = `${params.project}-${query.chart ?? 'trends'}-${query.range}.csv`
    return reply
      .type('text/csv; charset=utf-8')
      .header('content-disposition', `attachment; filename="${name}"`)
      .send(
        trendsCsv(
          bars.map((at) => new Date(at).toISOString()),
          chosen,
        ),
      )
  })
}
