/**
 * The `person` executor: the turn waits for people, one after the other, and ends with what one of them says, with what another agent
 * says in their place, or with who was asked and did not answer. Always: what it knows is read from the cards; every wait has
 * a deadline; a worker may die anywhere, and the next one neither asks twice nor forgets an answer.
 */
import type { ToolCall } from '../../../kernel/verbs/turn/suspend.js'
import type { AgentFunction, TurnContext } from '../../agent.js'
import type { Hydrated } from '../../hydrate.js'
import { wantedFields } from '../../submit-result.js'
import { asksOf, objectOf, type Ask } from './asks.js'
import { askTool, decide, fallbackTool, type Next } from './decide.js'
import type { PersonSpec } from './spec.js'

/** Who answers such a call: nobody is sent a command for it. */
export const peopleHost = 'people'

export function personAgent(spec: PersonSpec): AgentFunction {
  return async (context) => {
    const { turn } = context
    const known = await context.hydrate()
    const wanted = wantedFields(known.context)
    const asks = asksOf(known.output, turn.agentTurnId, context.results)
    const question = questionOf(known, spec)
    if (question === '')
      return {
        deliver: { text: 'There is nothing to ask: the task has no instruction.' },
        status: 'failed',
        error: 'no_question',
      }
    await over(context, asks.at(-1))
    const knownAt = latest(known)
    const next = decide({ spec, asks, wanted, turnDeadline: turn.turnDeadline, knownAt })
    if (next.what === 'end') return next.action
    // The same ask has the same id, whoever makes it: two workers cannot put one question twice.
    const toolCallId = `ask-${asks.length + 1}-${turn.agentTurnId}`
    const call = next.what === 'ask' ? asking(context, spec, next, question, wanted) : falling(context, next, question)
    return { suspend: { calls: [{ toolCallId, ...call }] } }
  }
}

function asking(
  { turn }: TurnContext,
  { instructions, choices }: PersonSpec,
  { to, seconds, refused }: Extract<Next, { readonly what: 'ask' }>,
  question: string,
  wanted: readonly object[],
): Omit<ToolCall, 'toolCallId'> {
  return {
    toolName: askTool,
    hostedBy: peopleHost,
    timeoutSeconds: seconds,
    args: {
      to,
      question,
      ...(instructions === '' || instructions === question ? {} : { instructions }),
      ...(choices === undefined || choices.length === 0 || wanted.length > 0 ? {} : { choices }),
      ...(wanted.length === 0 ? {} : { result_fields: wanted }),
      ...(turn.contextBoxId === null ? {} : { context_box_id: turn.contextBoxId }),
      answer_within_seconds: seconds,
      ...(refused === undefined ? {} : { refused }),
    },
  }
}

function falling(
  { turn }: TurnContext,
  { agent, seconds, told }: Extract<Next, { readonly what: 'fallback' }>,
  question: string,
): Omit<ToolCall, 'toolCallId'> {
  const instruction = `These people were asked, and none of them gave an answer:\n${told}\n\nAnswer in their place.`
  const context =
    turn.contextBoxId === null
      ? { instruction: `${question}\n\n${instruction}` }
      : { instruction, contextBoxId: turn.contextBoxId }
  return {
    toolName: fallbackTool,
    args: { agent },
    batch: { tasks: [{ targetStrategy: 'reuse', targetRef: agent, ...context }], deadlineSeconds: seconds },
  }
}

// A person reads this much; the context box, whose id goes with the question, holds all of it.
const questionMaxChars = 50_000

function questionOf({ context }: Hydrated, { instructions }: PersonSpec): string {
  const told = context
    .filter(({ type }) => type === 'task.instruction')
    .map(({ content }) => {
      const text = typeof content === 'string' ? content : objectOf(content)['text']
      return typeof text === 'string' ? text : JSON.stringify(content)
    })
  const text = told.join('\n\n').trim()
  if (text === '') return instructions.trim()
  if (text.length <= questionMaxChars) return text
  return `${text.slice(0, questionMaxChars).toWellFormed()}\n[cut: ${text.length - questionMaxChars} more characters]`
}

/** The step of an ask that is over; written again by whoever takes over, under the same id. */
async function over(context: TurnContext, last: Ask | undefined): Promise<void> {
  if (last?.answer === undefined || last.stepId === undefined) return
  const { status, error } = last.answer
  await context.record({
    step: {
      stepId: last.stepId,
      phase: last.toolName,
      status,
      toolCallIds: [last.toolCallId],
      ...(typeof error?.code === 'string' ? { error: error.code.slice(0, 200) } : {}),
    },
  })
}

function latest({ context, output }: Hydrated): Date | undefined {
  const times = [...context, ...output].map((card) => card.created_at.getTime())
  return times.length === 0 ? undefined : new Date(times.reduce((one, other) => Math.max(one, other)))
}
