/**
 * The account to which a coding agent's run is charged: it is entered before the program starts, and held if the program reports that it
 * reached a limit. A probe has succeeded as soon as the program reports tokens, or when it ends without such a report.
 */
import type { Clock } from '@bellwether/base'
import type { TurnContext } from '../agent.js'
import type { CommandRun } from './command-run.js'
import { limitIn, reasonMaxChars, type ReachedLimit } from './limit-message.js'
import type { Recipe } from './presets.js'
import type { Usage } from './usage.js'

export interface CommandAccount {
  /** The limit that the program reported. Undefined if it reported none. */
  limitOf(run: CommandRun): ReachedLimit | undefined
  /** Called with each report of usage. */
  used(usage: Usage | undefined): void
  /** After the run. Throws AccountHeld if there is a limit. */
  leave(limit: ReachedLimit | undefined): Promise<void>
}

/** The error of a step that ended at a limit of its account. */
export const accountLimit = 'account_limit'

/** The login of a preset is one account, unless the agent file names another. A plain command has none by default. */
export const accountOf = ({ account, preset }: Recipe & { readonly account?: string | undefined }) => account ?? preset

export async function enterCommandAccount(
  { accounts }: Pick<TurnContext, 'accounts'>,
  account: string | undefined,
  clock: Clock,
): Promise<CommandAccount> {
  if (accounts === undefined || account === undefined)
    return { limitOf: () => undefined, used: () => undefined, leave: () => Promise.resolve() }
  const isProbe = (await accounts.enter(account)) === 'probe'
  let proof: Promise<Error | undefined> | undefined
  const prove = () => {
    proof ??= accounts.works(account).then(
      () => undefined,
      (error: Error) => error,
    )
    return proof
  }
  return {
    limitOf({ stopped, exit, output, stderr }) {
      const failed = output.failure !== undefined || (exit.how === 'exited' && exit.code !== 0)
      if (stopped !== undefined || !failed) return undefined
      const found = limitIn([output.failure, output.text, stderr].filter(Boolean).join('\n'), clock.wallMs())
      if (output.limited === undefined) return found
      // An instant that the program reports is more exact than the clock time in its message.
      const { until } = output.limited
      const reason = (output.failure ?? 'the program reported a limit of its account').slice(0, reasonMaxChars)
      return { reason, ...found, ...(until === undefined ? {} : { until: new Date(until) }) }
    },
    used(usage) {
      if (isProbe && (usage?.output_tokens ?? 0) > 0) void prove()
    },
    async leave(limit) {
      if (limit !== undefined) {
        await proof
        return accounts.hold({ account, ...limit })
      }
      const error = isProbe ? await prove() : undefined
      if (error !== undefined) throw error
    },
  }
}
