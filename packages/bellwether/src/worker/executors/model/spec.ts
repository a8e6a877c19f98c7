/** The model settings of an agent file, and the bounds of a turn with their defaults. */
import type { ClaimedTurn } from '../../../kernel/verbs/turn/claim.js'
import { objectOf } from '../../card-text.js'

export const degradeActions = ['reduced_context', 'manual_handoff', 'stop_run'] as const
export type DegradeAction = (typeof degradeActions)[number]

/** USD per million tokens, which equals micro-dollars per token. */
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
  /** The tool whose call must end a turn: submit_result, or one of the agent's tools. */
  readonly must_end_with?: string | undefined
  readonly max_output_tokens?: number | undefined
  /** The size of the model's context window. */
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

const defaults = { maxSteps: 50, maxOutputTokens: 8_192, contextTokens: 100_000 } as const

/** The smaller of the agent file's limits and the budget in the turn's payload. */
export function boundsOf(spec: ModelSpec, turn: Pick<ClaimedTurn, 'payload'>): Bounds {
  const { budget } = spec
  const contextTokens = spec.context_tokens ?? defaults.contextTokens
  return {
    maxSteps: budget?.max_steps ?? defaults.maxSteps,
    // At least half of the context window stays free for the prompt.
    maxOutputTokens: Math.min(spec.max_output_tokens ?? defaults.maxOutputTokens, Math.floor(contextTokens / 2)),
    contextTokens,
    maxTokens: Math.min(budget?.max_tokens ?? Infinity, payloadBudget(turn, 'max_tokens')),
    maxCostMicros: (budget?.max_cost_usd ?? Infinity) * 1e6,
    maxWorkMs: Math.min((budget?.max_wall_seconds ?? Infinity) * 1_000, payloadBudget(turn, 'max_wall_ms')),
    degrade: budget?.degrade ?? degradeActions,
  }
}

/** A limit from the budget that the board puts into the payload of a run; Infinity if there is none. */
export function payloadBudget({ payload }: Pick<ClaimedTurn, 'payload'>, name: 'max_tokens' | 'max_wall_ms'): number {
  const value = objectOf(payload['budget'])[name]
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : Infinity
}
