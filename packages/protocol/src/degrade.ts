/** Reads degrade actions from data that others wrote: a turn's payload, a line of the board. */
import { degradeActions, type DegradeAction } from './vocabulary.js'

const known: readonly unknown[] = degradeActions
const isAction = (value: unknown): value is DegradeAction => known.includes(value)

/** The known actions, each once, in their order. */
export const degradeActionsIn = (value: unknown): readonly DegradeAction[] =>
  Array.isArray(value) ? [...new Set(value.filter(isAction))] : []
