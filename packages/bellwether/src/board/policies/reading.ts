/** The policies with which the board is read. A mistake in a policy file stops every dispatch, but not reading. */
import { InvalidInput } from '@bellwether/protocol'
import { defaultBudget, type BudgetPolicy } from './budget.js'
import { defaultRecovery, type RecoveryPolicy } from './recovery.js'

interface Read<Runtime> {
  readonly recovery: RecoveryPolicy
  readonly budget: BudgetPolicy
  readonly runtime?: Runtime
  /** Why no task is dispatched, if a policy file is invalid; the policies are then the defaults. */
  readonly problem?: string
}

// One cell of a table.
const problemMaxChars = 300

export async function policiesForReading<Runtime>(
  load: () => Promise<Omit<Read<Runtime>, 'problem'>>,
): Promise<Read<Runtime>> {
  try {
    return await load()
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    const message = `no task is dispatched: ${error.message.replaceAll('\n', ' ')}`
    return {
      recovery: defaultRecovery,
      budget: defaultBudget,
      problem: message.slice(0, problemMaxChars).toWellFormed(),
    }
  }
}
