/** Stops many turns, or runs many again: the turns that are named, or all that match the filters of `turn list`. */
import { defined, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, turnStatuses, type BulkTurnAction } from '@bellwether/protocol'
import type { BodyFor, BulkTurnRow } from '@bellwether/protocol/http'
import { Option, type Command } from 'commander'
import { uuidv7 } from '../../ports/ids.js'
import { openClient, type ServerFlags } from '../shared/client.js'
import { boundsOf, sinceOption, untilOption, type BoundFlags } from '../shared/instants.js'
import { bulkOptions, dollarsUpTo, type BulkFlags } from '../shared/options.js'

type Body = BodyFor<'POST /projects/:project/turns/bulk'>
type Filter = NonNullable<Body['filter']>

export type TurnFilterFlags = BoundFlags & Pick<Filter, 'status' | 'agent' | 'error' | 'text'>

export type TurnBulkFlags = ServerFlags & BulkFlags & TurnFilterFlags & { readonly reason?: string }

/** The filters of a list of turns. */
export const turnFilters = (command: Command): Command =>
  command
    .addOption(new Option('-s, --status <status>', 'only turns with this status').choices(turnStatuses))
    .option('-a, --agent <agent>', 'only turns of this agent')
    .addOption(sinceOption('turns that were queued'))
    .addOption(untilOption('turns that were queued'))
    .option('-e, --error <text>', 'only turns whose error starts with this text, such as budget_exceeded')
    .option('--min-cost <dollars>', 'only turns that cost at least this much', dollarsUpTo(1_000_000))
    .option('-t, --text <words>', 'only turns with these words in the instruction or the deliverable')

export const turnFilterOf = ({ status, agent, error, text, ...bounds }: TurnFilterFlags): Filter =>
  defined({ status, agent, error, text, ...boundsOf(bounds) })

export const withTurnBulk = (command: Command): Command => turnFilters(bulkOptions(command))

/** Whether the command is about one turn, by its id alone. */
export const isOneTurn = (ids: readonly string[], flags: TurnBulkFlags): boolean =>
  ids.length === 1 && flags.all !== true && flags.dryRun !== true

export async function bulkTurns(action: BulkTurnAction, ids: readonly string[], flags: TurnBulkFlags): Promise<number> {
  const filter = turnFilterOf(flags)
  if ((ids.length === 0) !== (flags.all === true))
    throw new InvalidInput(`Cannot ${action} turns: name turns, or give --all for those that match the filters`, {
      code: 'no_turns',
      hint: `for example: bellwether turn ${action} --all --agent coder --since 1h --dry-run`,
    })
  if (ids.length > 0 && Object.keys(filter).length > 0)
    throw new InvalidInput(`Cannot ${action} turns: ids and filters cannot be combined`, {
      code: 'contradicting_options',
      hint: 'omit the ids and give --all, or omit the filters',
    })
  const client = openClient(flags)
  const requestId = uuidv7(systemClock, systemRandom).next()
  const shared = { action, request_id: requestId, ...defined({ reason: flags.reason }) }
  const ask = (rows: Pick<Body, 'turns' | 'filter' | 'dry_run'>) =>
    client.ask('POST /projects/:project/turns/bulk', { body: { ...shared, ...rows } })
  const { runBulk } = await import('../shared/bulk.js')
  return runBulk<BulkTurnRow>(flags, {
    action,
    noun: 'turn',
    preview: () => ask({ ...(ids.length > 0 ? { turns: [...ids] } : { filter }), dry_run: true }),
    run: (rows) => ask({ turns: rows.map((row) => row.agent_turn_id) }),
    cells: (row) => [row.new_turn_id ?? row.agent_turn_id, row.agent_id ?? '', row.status ?? ''],
  })
}
