/**
 * The handlers of the tools that the PMO hosts. `delegate` and `fork_join` accept the same arguments as the built-in tools of a worker.
 * The kernel checks the depth of the recursion when it dispatches the tasks.
 */
import { listActiveAgents, listProfileIds } from '../../kernel/reads/agents.js'
import type { Kernel } from '../../kernel/kernel.js'
import type { PmoAnswer, PmoHandlers } from '../../pmo/hosted-tools.js'
import type { PmoCall } from '../../kernel/verbs/tools/pmo_calls.js'
import { checkArguments } from '../../worker/tools/arguments.js'
import { builtIns } from '../../worker/tools/built-ins.js'
import { builtInNames } from '../../worker/tools/names.js'

export function pmoHandlers({ db }: Pick<Kernel, 'db'>): PmoHandlers {
  const fork =
    (name: string) =>
    async (call: PmoCall): Promise<PmoAnswer> => {
      const profiles = await listProfileIds(db, call.projectId)
      const agents = profiles.map((profile) => ({ name: profile }))
      const around = { agentId: call.agentId, recursionDepth: 0, maxRecursionDepth: Infinity, agents }
      const tool = builtIns(around).find(({ offer }) => offer.name === name)!
      const checked = checkArguments(call.args, tool.offer)
      if ('refuse' in checked) return checked
      const plan = tool.plan(call.toolCallId, checked.args)
      return 'refuse' in plan ? plan : { batch: plan.call.batch! }
    }
  return {
    delegate: fork(builtInNames.delegate),
    fork_join: fork(builtInNames.forkJoin),
    list_agents: async ({ projectId }) => ({ result: await listActiveAgents(db, projectId) }),
  }
}
