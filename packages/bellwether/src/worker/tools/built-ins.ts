/**
 * The built-in tools: `delegate` and `fork_join` create batches, `ask_person` waits for people. Pure: valid arguments become the call
 * that the turn waits for, or a refusal. The kernel decides who may be asked; problems that are visible here (the agent itself, too
 * many levels, an invalid name) are refused at once.
 */
import { defined } from '@bellwether/base'
import { isToken } from '@bellwether/protocol'
import type { FieldSpec } from '../../kernel/verbs/cards.js'
import type { NewBatch, NewTask } from '../../kernel/verbs/batches/fork.js'
import type { ToolOffer } from '../../ports/model/model.js'
import { builtInNames } from './names.js'
import type { ToolPlan } from './tool.js'

/** What the turn knows about itself and other agents. */
export interface Surroundings {
  readonly agentId: string
  readonly recursionDepth: number
  readonly maxRecursionDepth: number
  /** Agents with a profile of the same name, and their purpose. */
  readonly agents: readonly { readonly name: string; readonly description?: string | undefined }[]
}

export interface BuiltIn {
  readonly offer: ToolOffer
  plan(toolCallId: string, args: Readonly<Record<string, unknown>>): ToolPlan
}

// One transaction creates all tasks; a larger number is a mistake of the model.
const tasksMax = 1_000
const deadlineMaxSeconds = 2_592_000
const answerDefaultSeconds = 1_800
const listedMax = 50

const strategies = ['new', 'reuse', 'clone'] as const
type Strategy = (typeof strategies)[number]

const text = (description: string, maxLength = 200_000) => ({ type: 'string', minLength: 1, maxLength, description })
const deadline = { type: 'number', exclusiveMinimum: 0, maximum: deadlineMaxSeconds }
const strategyText =
  'new: a new agent of that kind. clone: a copy with the memory of the agent. reuse: the agent itself, after its current work.'
const resultFields = {
  type: 'array',
  minItems: 1,
  maxItems: 100,
  description: 'fields that the result must have',
  items: {
    type: 'object',
    required: ['name'],
    additionalProperties: false,
    properties: {
      name: text('', 200),
      description: text('', 2_000),
      required: { type: 'boolean' },
      type: { enum: ['string', 'number', 'integer', 'boolean', 'array', 'object'] },
    },
  },
}
const task = {
  agent: text('the name of the agent', 120),
  instruction: text('the complete instruction: the agent does not know this conversation'),
  context: text('additional context'),
  result_fields: resultFields,
}
const errors =
  'A failed task has the reason in `error`: unknown_agent or unknown_profile (no such name), reuse_of_ancestor (that agent waits for this task: use new or clone), recursion_depth_exceeded (too many levels: do it yourself).'

export function builtIns(around: Surroundings): readonly BuiltIn[] {
  const known = around.agents.slice(0, listedMax).map(({ name, description }) => {
    const purpose = description?.replace(/\s+/g, ' ').slice(0, 160)
    return purpose === undefined || purpose === '' ? name : `${name} (${purpose})`
  })
  const who = known.length === 0 ? '' : ` Agents: ${known.join('; ')}.`
  return [
    {
      offer: {
        name: builtInNames.delegate,
        description: `Gives one task to another agent and waits for its result.${who} ${errors}`,
        parameters: {
          type: 'object',
          required: ['agent', 'instruction'],
          additionalProperties: false,
          properties: {
            ...task,
            strategy: { enum: strategies, description: `${strategyText} Default: reuse.` },
            deadline_seconds: deadline,
          },
        },
      },
      plan: (toolCallId, args) =>
        batchOf(builtInNames.delegate, toolCallId, args, [args as unknown as RequestedTask], around),
    },
    {
      offer: {
        name: builtInNames.forkJoin,
        description: `Gives several tasks to agents that work in parallel and waits for all results, which come in task order.${who} ${errors}`,
        parameters: {
          type: 'object',
          required: ['tasks'],
          additionalProperties: false,
          properties: {
            tasks: {
              type: 'array',
              minItems: 1,
              maxItems: tasksMax,
              items: {
                type: 'object',
                required: ['instruction'],
                additionalProperties: false,
                properties: {
                  ...task,
                  target_strategy: { enum: strategies, description: `${strategyText} Default: a copy.` },
                  target_ref: text('the same as agent', 120),
                },
              },
            },
            fail_fast: { type: 'boolean', description: 'the first failed task stops the others' },
            deadline_seconds: deadline,
          },
        },
      },
      plan: (toolCallId, args) =>
        batchOf(builtInNames.forkJoin, toolCallId, args, args['tasks'] as readonly RequestedTask[], around),
    },
    {
      offer: {
        name: builtInNames.askPerson,
        description:
          'Asks a person and waits for the answer, which may take a long time. Use it for decisions that only a person can make.',
        parameters: {
          type: 'object',
          required: ['question'],
          additionalProperties: false,
          properties: {
            question: text('the complete question, with everything needed to answer it', 20_000),
            choices: { type: 'array', minItems: 1, maxItems: 50, items: text('', 1_000) },
            to: text('the person to ask. Default: anyone', 200),
            deadline_seconds: { ...deadline, description: `Default: ${answerDefaultSeconds}` },
          },
        },
      },
      plan: planQuestion,
    },
  ]
}

interface RequestedTask {
  readonly agent?: string
  readonly target_ref?: string
  readonly strategy?: Strategy
  readonly target_strategy?: Strategy
  readonly instruction: string
  readonly context?: string
  readonly result_fields?: readonly FieldSpec[]
}

const refuse = (code: string, message: string) => ({ refuse: { code, message } })

function batchOf(
  toolName: string,
  toolCallId: string,
  args: Readonly<Record<string, unknown>>,
  requested: readonly RequestedTask[],
  around: Surroundings,
): ToolPlan {
  if (around.recursionDepth >= around.maxRecursionDepth) {
    return refuse(
      'recursion_depth_exceeded',
      `this turn is already ${around.recursionDepth} levels deep and cannot delegate. Do the task yourself`,
    )
  }
  const tasks: NewTask[] = []
  for (const [position, one] of requested.entries()) {
    const checkedTask = taskOf(one, toolName === builtInNames.delegate, around)
    if (typeof checkedTask === 'string')
      return refuse('invalid_task', requested.length === 1 ? checkedTask : `task ${position}: ${checkedTask}`)
    tasks.push(checkedTask)
  }
  const batch: NewBatch = {
    tasks,
    ...defined({
      failFast: args['fail_fast'] === true ? true : undefined,
      deadlineSeconds: typeof args['deadline_seconds'] === 'number' ? args['deadline_seconds'] : undefined,
    }),
  }
  return { call: { toolCallId, toolName, args, batch } }
}

/** The task, or the problem as text. */
function taskOf(one: RequestedTask, delegated: boolean, around: Surroundings): NewTask | string {
  const targetRef = one.target_ref ?? one.agent
  if (targetRef === undefined) return '"agent" is missing'
  if (!isToken(targetRef)) return `${JSON.stringify(targetRef.slice(0, 80))} is not a valid agent name`
  const fields = one.result_fields
  if (fields !== undefined && new Set(fields.map((field) => field.name)).size !== fields.length)
    return '"result_fields" must have distinct names'
  // Delegated work goes to the named agent; parallel work goes to copies, which need not wait for each other.
  const copy = around.agents.some((agent) => agent.name === targetRef) ? 'new' : 'clone'
  const targetStrategy = one.target_strategy ?? one.strategy ?? (delegated ? 'reuse' : copy)
  if (targetStrategy === 'reuse' && targetRef === around.agentId)
    return 'you cannot delegate to yourself with "reuse". Use "new" or "clone"'
  const instruction = one.context === undefined ? one.instruction : `${one.instruction}\n\n# Context\n\n${one.context}`
  return { targetStrategy, targetRef, instruction, ...defined({ resultFields: fields }) }
}

/** The deadline is a property of the call and no argument of the person. */
export function planQuestion(toolCallId: string, args: Readonly<Record<string, unknown>>): ToolPlan {
  const { deadline_seconds: seconds, ...question } = args
  return {
    call: {
      toolCallId,
      toolName: builtInNames.askPerson,
      args: question,
      hostedBy: 'person',
      timeoutSeconds: typeof seconds === 'number' ? seconds : answerDefaultSeconds,
      // A question has no side effects, so it may be repeated.
      idempotent: true,
    },
  }
}
