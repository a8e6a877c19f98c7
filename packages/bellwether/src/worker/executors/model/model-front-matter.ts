/** The front matter of executor `model`: its keys with their limits, and the problems of their combination. Pure. */
import { degradeActions } from '@bellwether/protocol'
import { z } from 'zod'
import type { ModelSpec } from './spec.js'

const price = z.number().min(0).max(1e6)
const prices = z.strictObject({
  input_per_million: price,
  output_per_million: price,
  cached_input_per_million: price.optional(),
  cache_write_per_million: price.optional(),
})

export const priceFields = Object.keys(prices.shape)

export const modelFields = {
  max_output_tokens: z.number().int().min(16).max(1_000_000).optional(),
  context_tokens: z.number().int().min(1_000).max(10_000_000).optional(),
  temperature: z.number().min(0).max(2).optional(),
  prices: prices.optional(),
  cheaper_prices: prices.optional(),
  essential_tools: z.array(z.string().min(1).max(4_096)).max(1_000).optional(),
} as const

/** A key of `budget`. */
export const degrade = z.array(z.enum(degradeActions)).min(1).max(degradeActions.length).optional()

/** The message about a key that the agent's executor does not support. */
export const onlyFor = (key: string, supported: string, executor: string | undefined) =>
  `"${key}" is only for executor "${supported}", but this agent has executor "${executor}". Remove the key`

type Settings = Pick<ModelSpec, keyof typeof modelFields | 'budget' | 'cheaper_model'> & {
  readonly executor?: string | undefined
  readonly model?: string | undefined
}

/** The key and its problem. Undefined if there is none. */
export function modelProblem(settings: Settings): readonly [key: string, message: string] | undefined {
  const { executor, model, budget } = settings
  if (executor !== 'model') {
    const stray = (Object.keys(modelFields) as (keyof typeof modelFields)[]).find((key) => settings[key] !== undefined)
    if (stray !== undefined) return [stray, onlyFor(stray, 'model', executor)]
    const ofModels = (['degrade', 'max_steps'] as const).find((key) => budget?.[key] !== undefined)
    if (ofModels !== undefined) return [`budget.${ofModels}`, onlyFor(`budget.${ofModels}`, 'model', executor)]
    return budget?.max_repeats === undefined || executor === 'command'
      ? undefined
      : ['budget.max_repeats', onlyFor('budget.max_repeats', 'model" and "command', executor)]
  }
  const { cheaper_model: cheaper } = settings
  for (const [key, name] of Object.entries({ model, cheaper_model: cheaper }))
    if (name !== undefined && !/^[a-z][a-z0-9_-]*\/\S+$/.test(name))
      return [key, `"${key}" must have the form provider/model (got "${name}"), for example openai/gpt-5-mini`]
  if (cheaper === undefined && settings.cheaper_prices !== undefined)
    return ['cheaper_prices', '"cheaper_prices" requires "cheaper_model". Add it or remove the prices']
  if (cheaper === undefined && budget?.degrade?.includes('cheaper_model') === true)
    return [
      'budget.degrade',
      '"budget.degrade" has cheaper_model, which requires the key "cheaper_model". Add the model',
    ]
  if (cheaper !== undefined && settings.prices !== undefined && settings.cheaper_prices === undefined)
    return ['cheaper_model', '"cheaper_model" requires "cheaper_prices", because the agent has "prices"']
  if (budget?.max_cost_usd !== undefined && settings.prices === undefined)
    return [
      'budget.max_cost_usd',
      '"budget.max_cost_usd" requires "prices", because the cost of a token is unknown without them',
    ]
  return undefined
}
