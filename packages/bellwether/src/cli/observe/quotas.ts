/** `bellwether quotas`: lists accounts that reached a limit of their provider and spending limits, and lifts a hold. */
import { limitText } from '@bellwether/protocol'
import type { Hold, Spending } from '@bellwether/protocol/http'
import { Command } from 'commander'
import { openClient, toServer, type ServerFlags } from '../shared/client.js'
import { jsonLines } from '../shared/options.js'
import { print, printList } from '../shared/output.js'
import { instant, table } from '../shared/terminal.js'

export function quotasCommand(): Command {
  const quotas = new Command('quotas')
    .description('list accounts that reached a limit of their provider and spending limits, and end a hold')
    .helpCommand(false)
  toServer(quotas.command('list', { isDefault: true }), 'all projects')
    .description('list the held accounts and the spending limits (the default)')
    .addOption(jsonLines())
    .action(async (flags: ServerFlags) => {
      const { holds, limits } = await openClient(flags).ask('GET /quotas')
      printList(flags, { holds, limits }, [...holds, ...limits], () =>
        [
          holds.length === 0 ? 'No account is held' : holdTable(holds),
          limits.length === 0 ? 'No spending limits are set' : spendingTable(limits),
        ].join('\n\n'),
      )
    })
  toServer(quotas.command('lift <account>'), 'all projects')
    .description('end the hold of an account now; its turns continue')
    .action(async (account: string, flags: ServerFlags) => {
      const lifted = await openClient(flags).ask('POST /quotas/lift', { body: { account } })
      print(flags, lifted, () => `The hold of account ${account} has ended; its turns continue`)
    })
  return quotas
}

function holdTable(holds: readonly Hold[]): string {
  const rows = holds.map((hold) => [
    hold.account,
    hold.probing ? 'a turn probes it now' : instant(hold.until),
    String(hold.turns),
    String(hold.window),
    hold.reason,
  ])
  return table(['ACCOUNT', 'UNTIL (UTC)', 'TURNS', 'WINDOW', 'REASON'], rows, process.stdout.columns, [0])
}

function spendingTable(limits: readonly Spending[]): string {
  const rows = limits.map((one) => [
    one.limit,
    one.project_id ?? '–',
    [
      ...(one.cost_micros.limit === null ? [] : [limitText('micros', one.cost_micros.used, one.cost_micros.limit)]),
      ...(one.tokens.limit === null ? [] : [limitText('tokens', one.tokens.used, one.tokens.limit)]),
    ].join(', '),
    instant(one.ends_at),
    one.action,
  ])
  const heads = ['LIMIT', 'PROJECT', 'USED', 'UNTIL (UTC)', 'THEN']
  return `${table(heads, rows, process.stdout.columns, [0])}\nSet by [spending] of bellwether.toml`
}
