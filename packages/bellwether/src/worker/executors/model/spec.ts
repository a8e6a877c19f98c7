/** The model settings of an agent file, and the bounds of a turn with their defaults. */
import type { DegradeAction } from '@bellwether/protocol'
import type { BudgetSettings } from '../../budget-watch.js'
import { defaultMaxRepeats } from '../repeats.js'

/** USD per million tokens, which equals micro-dollars per token. */
export interface Prices {
  readonly input_per_million: number
  readonly output_per_million: number
  readonly cached_input_per_million?: number | undefined
  readonly cache_write_per_million?: number | undefined
}

export interface ModelSpec {
  /** `provider/model`. */
  readonly model: string
  readonly instructions: string
  /** The account to which the calls are charged. Default: the provider's key. */
  readonly account?: string | undefined
  readonly tools?: readonly string[] | undefined
  /** The tool whose call must end a turn: submit_result, or one of the agent's tools. */
  readonly must_end_with?: string | undefined
  readonly max_output_tokens?: number | undefined
  /** The size of the model's context window. */
  readonly context_tokens?: number | undefined
  readonly temperature?: number | undefined
  readonly prices?: Prices | undefined
  /** The model of `cheaper_model`, and its prices. */
  readonly cheaper_model?: string | undefined
  readonly cheaper_prices?: Prices | undefined
  /** The tools that `fewer_tools` leaves. */
  readonly essential_tools?: readonly string[] | undefined
  /** The kernel enforces tokens, cost and working time; the executor steps and repeats. */
  readonly budget?:
    | (BudgetSettings & {
        readonly max_steps?: number | undefined
        readonly max_repeats?: number | undefined
        readonly degrade?: readonly DegradeAction[] | undefined
      })
    | undefined
}

export interface Bounds {
  readonly maxSteps: number
  /** The turn ends when the same calls had the same results this often in a row. */
  readonly maxRepeats: number
  readonly maxOutputTokens: number
  readonly contextTokens: number
  readonly degrade: readonly DegradeAction[]
}

const defaults = { maxSteps: 50, maxOutputTokens: 8_192, contextTokens: 100_000 } as const
const defaultSequence: readonly DegradeAction[] = ['reduced_context', 'manual_handoff', 'stop_run']

/** `sequence`: the degrade actions of the task, which apply if the agent file has none. */
export function boundsOf(spec: ModelSpec, sequence: readonly DegradeAction[]): Bounds {
  const { budget } = spec
  const contextTokens = spec.context_tokens ?? defaults.contextTokens
  return {
    maxSteps: budget?.max_steps ?? defaults.maxSteps,
    maxRepeats: budget?.max_repeats ?? defaultMaxRepeats,
    // At least half of the context window stays free for the prompt.
    maxOutputTokens: Math.min(spec.max_output_tokens ?? defaults.maxOutputTokens, Math.floor(contextTokens / 2)),
    contextTokens,
    degrade: budget?.degrade ?? (sequence.length > 0 ? sequence : defaultSequence),
  }
}
