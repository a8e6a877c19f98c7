/** What an agent's file says about how its model works, and the bounds where it says nothing. Words only. */
import type { ClaimedTurn } from '../../../kernel/verbs/turn/claim.js'

export const degradeActions = ['reduced_context', 'manual_handoff', 'stop_run'] as const
export type DegradeAction = (typeof degradeActions)[number]

/** In USD. A token of a million costs as many micros as a million tokens cost dollars. */
export interface Prices {
  readonly input_per_million: number
  readonly output_per_million: number
  readonly cached_input_per_million?: number | undefined
}

export interface ModelSpec {
  /** `provider/model`. */
  readonly model: string
  readonly instructions: string
  readonly tools?: readonly string[] | undefined
  /** The tool whose call ends a turn: submit_result, or one of its own. */
  readonly must_end_with?: string | undefined
  readonly max_output_tokens?: number | undefined
  /** How much the model can read at once. */
  readonly context_tokens?: number | undefined
  readonly temperature?: number | undefined
  readonly prices?: Prices | undefined
  readonly budget?:
    | {
        readonly max_tokens?: number | undefined
        readonly max_cost_usd?: number | undefined
        readonly max_wall_seconds?: number | undefined
        readonly max_steps?: number | undefined
        readonly degrade?: readonly DegradeAction[] | undefined
      }
    | undefined
}

export interface Bounds {
  readonly maxSteps: number
  readonly maxOutputTokens: number
  readonly contextTokens: number
  readonly maxTokens: number
  readonly maxCostMicros: number
  readonly maxWorkMs: number
  readonly degrade: readonly DegradeAction[]
}

const usual = { maxSteps: 50, maxOutputTokens: 8_192, contextTokens: 100_000 } as const

/** The narrowest of what the file says and what the turn was given to spend. */
export function boundsOf(spec: ModelSpec, turn: Pick<ClaimedTurn, 'payload'>): Bounds {
  const { budget } = spec
  const contextTokens = spec.context_tokens ?? usual.contextTokens
  return {
    maxSteps: budget?.max_steps ?? usual.maxSteps,
    // An answer as long as the window would leave no room for the question.
    maxOutputTokens: Math.min(spec.max_output_tokens ?? usual.maxOutputTokens, Math.floor(contextTokens / 2)),
    contextTokens,
    maxTokens: Math.min(budget?.max_tokens ?? Infinity, given(turn, 'max_tokens')),
    maxCostMicros: (budget?.max_cost_usd ?? Infinity) * 1e6,
    maxWorkMs: Math.min((budget?.max_wall_seconds ?? Infinity) * 1_000, given(turn, 'max_wall_ms')),
    degrade: budget?.degrade ?? degradeActions,
  }
}

/** The board gives each run a budget of its own. */
function given({ payload }: Pick<ClaimedTurn, 'payload'>, name: string): number {
  const budget = payload['budget']
  const value: unknown =
    typeof budget === 'object' && budget !== null ? (budget as Record<string, unknown>)[name] : undefined
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : Infinity
}
