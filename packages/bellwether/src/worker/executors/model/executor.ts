/**
 * The `model` executor: a language model runs the turn, step by step, with tools. It is opened once per process, because all turns
 * share the limiters of the providers' accounts. The state of a turn is in its cards (react.ts).
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { ClaimedTurn } from '../../../kernel/verbs/turn/claim.js'
import type { Fence } from '../../../kernel/verdict.js'
import { modelRetryPolicy, defaultModelTimeouts, type ModelTimeouts } from '../../../ports/model/call-model.js'
import { openLimiter, type Limiter } from '../../../ports/model/limiter.js'
import type { Model, ModelPart } from '../../../ports/model/model.js'
import type { Models } from '../../../ports/model/providers.js'
import type { RetryPolicy } from '../../../ports/retry.js'
import type { AgentFunction, TurnContext } from '../../agent.js'
import { withLimits } from '../../budget-watch.js'
import type { Hydrated } from '../../hydrate.js'
import type { Toolbox } from '../../tools/tool.js'
import type { ModelAccess } from './call-shape.js'
import { react } from './react.js'
import type { ModelSpec } from './spec.js'

interface ModelChunk {
  readonly kind: 'text' | 'thought'
  readonly text: string
}

export interface ModelExecutorOptions {
  readonly clock: Clock
  readonly log: Log
  readonly random: Pick<Random, 'next'>
  /** Models by name. */
  readonly models: Models
  /** The tools of an agent in one turn. */
  readonly toolbox: (turn: ClaimedTurn, known: Hydrated, spec: ModelSpec) => Toolbox
  /** Receives the model's output while it is generated. Lossy, and repeated when a call is retried: nothing may depend on it. */
  readonly onChunk?: (turn: Fence, chunk: ModelChunk) => void
  readonly retry?: RetryPolicy
  readonly times?: ModelTimeouts
  /** Concurrent requests per provider account from this process. */
  readonly requestsMax?: number
}

export interface ModelExecutor {
  agent(spec: ModelSpec): AgentFunction
}

// The smallest paid accounts allow this many; the limiter lowers it when a provider is busy.
const requestsMax = 16
// Accounts come from files that change, so old ones must not accumulate; a limiter is a few numbers.
const limitersMax = 1_000

export function openModelExecutor(options: ModelExecutorOptions): ModelExecutor {
  const { clock, log, random, models, retry = modelRetryPolicy, times = defaultModelTimeouts } = options
  const limiters = new Map<string, Limiter>()

  function limiterOf({ account }: Model): Limiter {
    const known = limiters.get(account)
    if (known !== undefined) return known
    if (limiters.size >= limitersMax) limiters.clear()
    const limiter = openLimiter({ clock, maxConcurrent: options.requestsMax ?? requestsMax })
    limiters.set(account, limiter)
    return limiter
  }

  /** Undefined if the agent has no cheaper model, or if it is not set up: then the turn goes on with its own. */
  function cheaperOf({ cheaper_model: name }: ModelSpec): ModelAccess | undefined {
    if (name === undefined) return undefined
    try {
      const model = models(name)
      return { model, limiter: limiterOf(model) }
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      log.warn({ err: error, model: name }, 'cheaper model not set up')
      return undefined
    }
  }

  /** Streams to the transcript, and to the chunks if there are any. */
  function streamTo(context: TurnContext): (part: ModelPart) => void {
    const { onChunk } = options
    let broken = onChunk === undefined
    let last: string | undefined
    return (part) => {
      if (part.kind === 'finish') last = undefined
      if ((part.kind !== 'text' && part.kind !== 'thought') || part.text === '') return
      context.say({ kind: part.kind, content: part.text, continued: last === part.kind })
      last = part.kind
      if (broken || onChunk === undefined) return
      try {
        onChunk(context.turn, part)
      } catch (error) {
        broken = true
        log.warn({ err: error, agent_turn_id: context.turn.agentTurnId }, 'model output no longer streamed')
      }
    }
  }

  return {
    agent(spec) {
      const agent: AgentFunction = async (context) => {
        const { turn } = context
        let model: Model
        try {
          model = models(spec.model)
          if (spec.account !== undefined) model = { ...model, account: spec.account }
        } catch (error) {
          if (!(error instanceof InvalidInput)) throw error
          const hint = error.hint === undefined ? '' : ` (${error.hint})`
          return {
            deliver: { text: `The model was not called: ${error.message}${hint}.` },
            status: 'failed',
            error: error.code,
          }
        }
        return react({
          clock,
          random,
          log,
          retry,
          times,
          context,
          spec,
          model,
          limiter: limiterOf(model),
          cheaper: () => cheaperOf(spec),
          toolbox: (known) => options.toolbox(turn, known, spec),
          onPart: streamTo(context),
        })
      }
      return withLimits(agent, spec.budget, { model: spec.model, reserves: true })
    },
  }
}
