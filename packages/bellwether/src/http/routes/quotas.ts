/** Quotas: which accounts wait for a limit of their provider, lifting a hold, and what was spent of the limits per day and month. */
import { Terminal } from '@bellwether/protocol'
import { readHolds, readSpending } from '../../kernel/reads/quotas.js'
import type { Kernel } from '../../kernel/kernel.js'
import type { Api } from '../api.js'
import { callerName } from '../auth.js'
import { isUnlimited, mustBeUnlimited, mustReachAnyProject } from '../roles.js'

export function quotaRoutes(api: Api, { kernel }: { readonly kernel: Kernel }): void {
  api('GET /quotas', async ({ grant }) => {
    mustReachAnyProject(grant)
    const project = isUnlimited(grant) ? undefined : (grant.project ?? '')
    return { holds: await readHolds(kernel.db, project), limits: await readSpending(kernel.db, project) }
  })

  // An account serves all projects, so a limited key may not lift its hold.
  api('POST /quotas/lift', async ({ body, grant }) => {
    mustBeUnlimited(grant)
    if (!(await kernel.endHold(body.account, callerName(grant))))
      throw new Terminal(`Account "${body.account}" is not held`, {
        code: 'not_found',
        hint: '`bellwether quotas` lists the accounts that are held.',
      })
    return { account: body.account, status: 'lifted' }
  })
}
