/**
 * The `person` executor: the turn asks people, one after the other, and ends with the first accepted answer, with a fallback agent's
 * answer, or with a report that no one answered. All state is in the cards and every wait has a deadline. If a worker dies, the next
 * one neither repeats a question nor loses an answer.
 */
import { defined } from '@bellwether/base'
import type { ToolCall } from '../../../kernel/verbs/turn/suspend.js'
import type { AgentFunction, TurnContext } from '../../agent.js'
import type { Hydrated } from '../../hydrate.js'
import { wantedFields } from '../../submit-result.js'
import { textOf } from '../../card-text.js'
import { asksOf, type Ask } from './asks.js'
import { askTool, decide, fallbackTool, type Next } from './decide.js'
import type { PersonSpec } from './spec.js'

/** The host name of calls that people answer; the kernel sends no command for them. */
export const peopleHost = 'people'

export function personAgent(spec: PersonSpec): AgentFunction {
  return async (context) => {
    const { turn } = context
    const known = await context.hydrate()
    const wanted = wantedFields(known.context)
    const asks = asksOf(known.output, context.results)
    const question = questionOf(known, spec)
    if (question === '')
      return {
        deliver: { text: 'Cannot ask anyone: neither the task nor the agent file has an instruction.' },
        status: 'failed',
        error: 'no_question',
      }
    await recordEnded(context, asks.at(-1))
    const knownAt = latest(known)
    const next = decide({ spec, asks, wanted, turnDeadline: turn.turnDeadline, knownAt })
    if (next.what === 'end') return next.action
    // The id follows from the number of asks, so that two workers cannot ask the same question twice.
    const toolCallId = `ask-${asks.length + 1}-${turn.agentTurnId}`
    const call =
      next.what === 'ask' ? askCall(context, spec, next, question, wanted) : fallbackCall(context, next, question)
    return { suspend: { calls: [{ toolCallId, ...call }] } }
  }
}

function askCall(
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
      answer_within_seconds: seconds,
      ...defined({
        instructions: instructions === '' || instructions === question ? undefined : instructions,
        choices: choices?.length === 0 || wanted.length > 0 ? undefined : choices,
        result_fields: wanted.length === 0 ? undefined : wanted,
        context_box_id: turn.contextBoxId ?? undefined,
        refused,
      }),
    },
  }
}

function fallbackCall(
  { turn }: TurnContext,
  { agent, seconds, report }: Extract<Next, { readonly what: 'fallback' }>,
  question: string,
): Omit<ToolCall, 'toolCallId'> {
  const instruction = `These people were asked, and none of them answered:\n${report}\n\nAnswer in their place.`
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

// As much as a person can read; the context box, whose id is part of the question, holds the rest.
const questionMaxChars = 50_000

function questionOf({ context }: Hydrated, { instructions }: PersonSpec): string {
  const tasks = context.filter(({ type }) => type === 'task.instruction')
  const text = tasks
    .map(({ content }) => textOf(content))
    .join('\n\n')
    .trim()
  if (text === '') return instructions.trim()
  if (text.length <= questionMaxChars) return text
  return `${text.slice(0, questionMaxChars).toWellFormed()}\n[cut: ${text.length - questionMaxChars} more characters]`
}

/** Records the step of an ask that has ended. A takeover records it again under the same id. */
async function recordEnded(context: TurnContext, last: Ask | undefined): Promise<void> {
  if (last?.answer === undefined || last.stepId === undefined) return
  const { status, error } = last.answer
  await context.record({
    step: {
      stepId: last.stepId,
      phase: last.toolName,
      status,
      toolCallIds: [last.toolCallId],
      ...defined({ error: typeof error?.code === 'string' ? error.code.slice(0, 200) : undefined }),
    },
  })
}

/** The time of the turn's newest card. Cards of earlier turns may have later times if the clock was set back since. */
function latest({ context, output }: Hydrated): Date | undefined {
  return (output.at(-1) ?? context.findLast((card) => card.type === 'task.instruction'))?.created_at
}
