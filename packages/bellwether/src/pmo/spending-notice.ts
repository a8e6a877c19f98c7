/** The message to people about a spending limit that is nearly or completely used. Pure. */
import { limitText } from '@bellwether/protocol'
import type { SpendingAlert } from '../kernel/verbs/budgets/spending.js'
import type { NewNotice } from '../kernel/verbs/notices.js'

export function spendingNotice(alert: SpendingAlert): NewNotice {
  const { limit_id: limit, project_id: projectId, percent, action } = alert
  const until = alert.ends_at.toISOString()
  const next =
    percent < 100 ? '' : action === 'hold' ? `; turns wait until ${until}` : `; "${action}" applies until ${until}`
  return {
    noticeId: `spending ${projectId} ${limit} ${alert.starts_at.toISOString()} ${percent}`,
    kind: 'spending',
    projectId,
    content: {
      text: `Spending limit "${limit}" of project ${projectId}: ${usedOf(alert)}${next}`,
      path: `/p/${projectId}/health`,
    },
  }
}

function usedOf(alert: SpendingAlert): string {
  const { cost_micros_limit: cost, token_limit: tokens } = alert
  return [
    ...(cost === null ? [] : [limitText('micros', alert.cost_micros_used, cost)]),
    ...(tokens === null ? [] : [limitText('tokens', alert.tokens_used, tokens)]),
  ].join(', ')
}
