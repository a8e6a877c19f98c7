/**
 * Whether a real model does the writing: when the environment has a key or an address for one, and nobody said otherwise. Always:
 * what all of it can cost at most is known before the first word, because every turn has its own hard limit and the turns are few.
 */
import { InvalidInput } from '@bellwether/protocol'

export interface DemoModel {
  /** Absent: the stage's own scripts, without a key and without a network. */
  readonly real?: RealModel
}

export interface RealModel {
  /** As an agent's file names it: `provider/model`. */
  readonly name: string
  readonly maxTokens: number
  readonly maxOutputTokens: number
}

type Environment = Readonly<Record<string, string | undefined>>

// A paragraph, two look-ups or a column; with the prompts of six steps.
const turnTokens = 8_000
const answerTokens = 800
const usual = { openai: 'gpt-4.1-mini', anthropic: 'claude-haiku-4-5' } as const

/** `wanted`: --model, as `provider/model`, or the bare name of one of the provider that is set up. */
export function chooseModel(env: Environment, scripted: boolean, wanted?: string): DemoModel {
  const has = (name: string) => (env[name]?.trim() ?? '') !== ''
  const provider =
    has('OPENAI_API_KEY') || has('OPENAI_BASE_URL') ? 'openai' : has('ANTHROPIC_API_KEY') ? 'anthropic' : undefined
  if (scripted) return {}
  if (wanted === undefined && provider === undefined) return {}
  const name = wanted?.includes('/') === true ? wanted : `${provider ?? ''}/${wanted ?? usual[provider ?? 'openai']}`
  if (!/^[a-z][a-z0-9_-]*\/\S+$/.test(name)) {
    throw new InvalidInput(`${JSON.stringify(wanted)} names no model that is set up here`, {
      code: 'model_not_set_up',
      hint: 'write provider/model, and set OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENAI_BASE_URL',
    })
  }
  return { real: { name, maxTokens: turnTokens, maxOutputTokens: answerTokens } }
}
