/**
 * Chooses the model that writes: a real one if the environment has a key or an address for it, unless the user asked for
 * scripts. Every turn of a real model has a token limit, so the maximum cost is known before the first call.
 */
import { InvalidInput } from '@bellwether/protocol'

export interface DemoModel {
  /** Absent: the scripted models, which need no key and no network. */
  readonly real?: RealModel
}

interface RealModel {
  /** `provider/model`, as in an agent file. */
  readonly name: string
  readonly maxTokens: number
  readonly maxOutputTokens: number
}

type Environment = Readonly<Record<string, string | undefined>>

// Enough for a paragraph, two look-ups or a column, with the prompts of six steps.
const turnTokens = 8_000
const answerTokens = 800
const defaults = { openai: 'gpt-4.1-mini', anthropic: 'claude-haiku-4-5' } as const

/** `wanted`: the flag --model, `provider/model` or a model of the configured provider. */
export function chooseModel(env: Environment, scripted: boolean, wanted?: string): DemoModel {
  const has = (name: string) => (env[name]?.trim() ?? '') !== ''
  const provider =
    has('OPENAI_API_KEY') || has('OPENAI_BASE_URL') ? 'openai' : has('ANTHROPIC_API_KEY') ? 'anthropic' : undefined
  if (scripted) return {}
  if (wanted === undefined && provider === undefined) return {}
  const name = wanted?.includes('/') === true ? wanted : `${provider ?? ''}/${wanted ?? defaults[provider ?? 'openai']}`
  if (!/^[a-z][a-z0-9_-]*\/\S+$/.test(name)) {
    throw new InvalidInput(`Cannot use model ${JSON.stringify(wanted)}: no provider is configured for it`, {
      code: 'model_not_configured',
      hint: 'name it as provider/model, and set OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENAI_BASE_URL',
    })
  }
  return { real: { name, maxTokens: turnTokens, maxOutputTokens: answerTokens } }
}
