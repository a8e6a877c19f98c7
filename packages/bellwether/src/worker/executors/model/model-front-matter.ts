/** The keys of an agent's file that are for executor `model`, with their bounds; and what is wrong with them together. Pure. */
import { z } from 'zod'
import { degradeActions, type ModelSpec } from './spec.js'

const price = z.number().min(0).max(1e6)
const prices = z.strictObject({
  input_per_million: price,
  output_per_million: price,
  cached_input_per_million: price.optional(),
})

export const priceKeys = Object.keys(prices.shape)

export const modelKeys = {
  max_output_tokens: z.number().int().min(16).max(1_000_000).optional(),
  context_tokens: z.number().int().min(1_000).max(10_000_000).optional(),
  temperature: z.number().min(0).max(2).optional(),
  prices: prices.optional(),
} as const

/** A key of `budget`. */
export const degrade = z.array(z.enum(degradeActions)).min(1).max(degradeActions.length).optional()

type Settings = Pick<ModelSpec, keyof typeof modelKeys | 'budget'> & {
  readonly executor?: string | undefined
  readonly model?: string | undefined
}

/** The key and what is wrong with it; undefined: nothing. */
export function modelTrouble(settings: Settings): readonly [key: string, message: string] | undefined {
  const { executor, model, budget } = settings
  if (executor !== 'model') {
    const stray = (Object.keys(modelKeys) as (keyof typeof modelKeys)[]).find((key) => settings[key] !== undefined)
    if (stray !== undefined) return [stray, `${stray} is for executor model, and this one is ${executor}`]
    return budget?.degrade === undefined ? undefined : ['budget.degrade', 'budget.degrade is for executor model']
  }
  if (model !== undefined && !/^[a-z][a-z0-9_-]*\/\S+$/.test(model))
    return ['model', 'model must be provider/model, such as openai/gpt-5-mini or anthropic/claude-sonnet-4-5']
  if (budget?.max_cost_usd !== undefined && settings.prices === undefined)
    return ['budget.max_cost_usd', 'budget.max_cost_usd needs prices: nobody else says what a token costs']
  return undefined
}
