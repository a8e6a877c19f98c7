/**
 * Opens models by name, `provider/model`: any OpenAI-compatible endpoint, Anthropic, and scripts. A key is used for its own provider
 * only and never shown. The caller passes the environment.
 */
import { defined } from '@bellwether/base'
import { createHash } from 'node:crypto'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { InvalidInput } from '@bellwether/protocol'
import { sdkModel } from './ai-sdk.js'
import type { Model } from './model.js'
import { scriptedModel, type Script } from './scripted.js'

export interface ProvidersOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** By the name after `scripted/`. */
  readonly scripts?: Readonly<Record<string, Script>>
}

/** Throws InvalidInput if the provider is unknown or not configured. */
export type Models = (name: string) => Model

const openaiUrl = 'https://api.openai.com/v1'
const anthropicUrl = 'https://api.anthropic.com/v1'

const whereSet = 'where `bellwether up` or the worker is started, and restart it. See docs/guides/models.md.'

const noKey = (model: string, variable: string) =>
  new InvalidInput(`The model "${model}" needs an API key`, {
    code: 'model_not_set_up',
    hint: `Set ${variable} ${whereSet}`,
  })

export function openModels({ env, scripts = {} }: ProvidersOptions): Models {
  const set = (name: string) => {
    const value = env[name]?.trim()
    return value === undefined || value === '' ? undefined : value
  }

  /** For example `work/qwen`: the endpoint is WORK_BASE_URL, the optional key WORK_API_KEY. */
  function compatible(provider: string, model: string): Model {
    const prefix = provider.toUpperCase().replaceAll('-', '_')
    const apiKey = set(`${prefix}_API_KEY`)
    const baseURL = set(`${prefix}_BASE_URL`) ?? (provider === 'openai' && apiKey !== undefined ? openaiUrl : undefined)
    if (baseURL === undefined) {
      throw provider === 'openai'
        ? noKey(model, 'OPENAI_API_KEY')
        : new InvalidInput(`The provider "${provider}" of the model "${model}" is not configured`, {
            code: 'model_not_set_up',
            hint: `Set ${prefix}_BASE_URL (and ${prefix}_API_KEY) ${whereSet}`,
          })
    }
    checkUrl(baseURL, `${prefix}_BASE_URL`)
    const own = new URL(baseURL).hostname === new URL(openaiUrl).hostname
    const provide = createOpenAICompatible({
      name: provider,
      baseURL,
      includeUsage: true,
      ...defined({ apiKey }),
      ...(own ? { transformRequestBody: newerLimit } : {}),
    })
    return sdkModel({
      name: `${provider}/${model}`,
      account: set(`${prefix}_ACCOUNT`) ?? accountOf(provider, baseURL, apiKey),
      model: provide.chatModel(model),
      key: apiKey,
    })
  }

  function anthropic(model: string): Model {
    const apiKey = set('ANTHROPIC_API_KEY')
    if (apiKey === undefined) {
      throw noKey(model, 'ANTHROPIC_API_KEY')
    }
    const baseURL = anthropicBase(set('ANTHROPIC_BASE_URL') ?? anthropicUrl)
    return sdkModel({
      name: `anthropic/${model}`,
      account: set('ANTHROPIC_ACCOUNT') ?? accountOf('anthropic', baseURL, apiKey),
      model: createAnthropic({ apiKey, baseURL }).languageModel(model),
      key: apiKey,
      cacheMark: { anthropic: { cacheControl: { type: 'ephemeral' } } },
    })
  }

  return (name) => {
    const slash = name.indexOf('/')
    const provider = slash < 0 ? '' : name.slice(0, slash)
    const model = name.slice(slash + 1)
    if (!/^[a-z][a-z0-9_-]{0,40}$/.test(provider) || model.trim() === '') {
      throw new InvalidInput(`Invalid model name ${JSON.stringify(name)}`, {
        code: 'model_not_set_up',
        hint: 'Use provider/model, such as openai/gpt-5-mini or anthropic/claude-sonnet-4-5.',
      })
    }
    if (provider === 'anthropic') return anthropic(model)
    if (provider !== 'scripted') return compatible(provider, model)
    const script = Object.hasOwn(scripts, model) ? scripts[model] : undefined
    if (script === undefined)
      throw new InvalidInput(`The scripted model "${model}" is not registered`, {
        code: 'model_not_set_up',
        hint: 'Tests and programs register scripts in code; an agent file needs a model of a provider.',
      })
    return scriptedModel(model, script)
  }
}

function checkUrl(url: string, variable: string): void {
  if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) return
  throw new InvalidInput(`${variable} must be an http or https URL`, {
    code: 'model_not_set_up',
    hint: `Correct it ${whereSet}`,
  })
}

/** Adds the version that the SDK needs, if the URL lacks it. */
function anthropicBase(url: string): string {
  checkUrl(url, 'ANTHROPIC_BASE_URL')
  const bare = url.replace(/\/+$/, '')
  return bare.endsWith('/v1') ? bare : `${bare}/v1`
}

/** OpenAI's newer models reject `max_tokens`, which other providers still use. */
function newerLimit({ max_tokens: limit, ...body }: Record<string, unknown>): Record<string, unknown> {
  return limit === undefined ? body : { ...body, max_completion_tokens: limit }
}

/** Calls with the same endpoint and key share the limits of their provider. The name shows neither. */
function accountOf(provider: string, url: string, key: string | undefined): string {
  const mark = createHash('sha256')
    .update(`${url}\n${key ?? ''}`)
    .digest('hex')
    .slice(0, 8)
  return `${provider}-${mark}`
}
