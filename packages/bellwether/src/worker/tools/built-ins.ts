/**
 * Tools that are the worker's own: `delegate` and `fork_join` make batches, `ask_person` waits for people. Pure: from arguments that
 * fit their schema comes the call that the turn waits for, or a refusal in words. Who may be asked what is decided by the kernel;
 * what can be known here (oneself, too deep, no name) is told at once.
 */
import { isToken } from '@bellwether/protocol'
import type { FieldSpec } from '../../kernel/verbs/cards.js'
import type { NewBatch, NewTask } from '../../kernel/verbs/batches/fork.js'
import { builtInNames } from './names.js'
import type { ToolOffer, ToolPlan } from './tool.js'

/** What the turn knows of itself and of others. */
export interface Surroundings {
  readonly agentId: string
  readonly recursionDepth: number
  readonly maxRecursionDepth: number
  /** Agents that have a profile of the same name, with what they are for. */
  readonly agents: readonly { readonly name: string; readonly description?: string | undefined }[]
}

export interface BuiltIn {
  readonly offer: ToolOffer
  plan(toolCallId: string, args: Readonly<Record<string, unknown>>): ToolPlan
}

// One transaction makes them all; a model that asks for more has lost count.
const tasksMax = 1_000
const deadlineMaxSeconds = 2_592_000
const answerUsualSeconds = 1_800
const listedMax = 50

const strategies = ['new', 'reuse', 'clone'] as const
type Strategy = (typeof strategies)[number]

const text = (description: string, maxLength = 200_000) => ({ type: 'string', minLength: 1, maxLength, description })
const deadline = { type: 'number', exclusiveMinimum: 0, maximum: deadlineMaxSeconds }
const strategyWords =
  'new: a fresh agent of that kind. clone: a copy, with what the agent remembers. reuse: the agent itself, behind whatever it is busy with.'
const resultFields = {
  type: 'array',
  minItems: 1,
  maxItems: 100,
  description: 'fields that the answer must have',
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
  instruction: text('what to do, in full: the agent knows nothing of this conversation'),
  context: text('what it should know besides'),
  result_fields: resultFields,
}
const errors =
  'A task that failed says why in `error`: unknown_agent and unknown_profile (no such name), reuse_of_ancestor (it waits for this very task: use new or clone), recursion_depth_exceeded (too many levels: do it yourself).'

export function builtIns(around: Surroundings): readonly BuiltIn[] {
  const known = around.agents.slice(0, listedMax).map(({ name, description }) => {
    const words = description?.replace(/\s+/g, ' ').slice(0, 160)
    return words === undefined || words === '' ? name : `${name} (${words})`
  })
  const who = known.length === 0 ? '' : ` Agents: ${known.join('; ')}.`
  return [
    {
      offer: {
        name: builtInNames.delegate,
        description: `Gives one task to another agent and waits for its answer.${who} ${errors}`,
        parameters: {
          type: 'object',
          required: ['agent', 'instruction'],
          additionalProperties: false,
          properties: {
            ...task,
            strategy: { enum: strategies, description: `${strategyWords} reuse when absent.` },
            deadline_seconds: deadline,
          },
        },
      },
      plan: (toolCallId, args) =>
        batchOf(builtInNames.delegate, toolCallId, args, [args as unknown as AskedTask], around),
    },
    {
      offer: {
        name: builtInNames.forkJoin,
        description: `Gives several tasks to agents that work at the same time, and waits for all of them; the answers come in the order of the tasks.${who} ${errors}`,
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
                  target_strategy: { enum: strategies, description: `${strategyWords} A copy when absent.` },
                  target_ref: text('the same as agent', 120),
                },
              },
            },
            fail_fast: { type: 'boolean', description: 'the first task that fails ends the others' },
            deadline_seconds: deadline,
          },
        },
      },
      plan: (toolCallId, args) =>
        batchOf(builtInNames.forkJoin, toolCallId, args, args['tasks'] as readonly AskedTask[], around),
    },
    {
      offer: {
        name: builtInNames.askPerson,
        description:
          'Asks a person and waits for the answer, which may take long. Ask for what only a person can decide.',
        parameters: {
          type: 'object',
          required: ['question'],
          additionalProperties: false,
          properties: {
            question: text('the whole question, with what one must know to answer it', 20_000),
            choices: { type: 'array', minItems: 1, maxItems: 50, items: text('', 1_000) },
            to: text('whom to ask; absent: whoever is there', 200),
            deadline_seconds: { ...deadline, description: `${answerUsualSeconds} when absent` },
          },
        },
      },
      plan: askPerson,
    },
  ]
}

interface AskedTask {
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
  asked: readonly AskedTask[],
  around: Surroundings,
): ToolPlan {
  if (around.recursionDepth >= around.maxRecursionDepth) {
    return refuse(
      'recursion_depth_exceeded',
      `this turn is ${around.recursionDepth} levels deep and cannot give work to others: do it yourself`,
    )
  }
  const tasks: NewTask[] = []
  for (const [position, one] of asked.entries()) {
    const made = taskOf(one, toolName === builtInNames.delegate, around)
    if (typeof made === 'string') return refuse('invalid_task', asked.length === 1 ? made : `task ${position}: ${made}`)
    tasks.push(made)
  }
  const batch: NewBatch = {
    tasks,
    ...(args['fail_fast'] === true ? { failFast: true } : {}),
    ...(typeof args['deadline_seconds'] === 'number' ? { deadlineSeconds: args['deadline_seconds'] } : {}),
  }
  return { call: { toolCallId, toolName, args, batch } }
}

/** A text: what is wrong with it. */
function taskOf(one: AskedTask, delegated: boolean, around: Surroundings): NewTask | string {
  const targetRef = one.target_ref ?? one.agent
  if (targetRef === undefined) return 'it does not say which agent'
  if (!isToken(targetRef)) return `${JSON.stringify(targetRef.slice(0, 80))} is not the name of an agent`
  const fields = one.result_fields
  if (fields !== undefined && new Set(fields.map((field) => field.name)).size !== fields.length)
    return 'its result_fields must have distinct names'
  const given = one.target_strategy ?? one.strategy
  // Delegated work goes to the one that was named; work in parallel to copies, which need not wait for each other.
  const copy = around.agents.some((agent) => agent.name === targetRef) ? 'new' : 'clone'
  const targetStrategy = given ?? (delegated ? 'reuse' : copy)
  if (targetStrategy === 'reuse' && targetRef === around.agentId)
    return 'you cannot give work to yourself with reuse: use new or clone'
  const instruction = one.context === undefined ? one.instruction : `${one.instruction}\n\n# Context\n\n${one.context}`
  return { targetStrategy, targetRef, instruction, ...(fields === undefined ? {} : { resultFields: fields }) }
}

function askPerson(toolCallId: string, args: Readonly<Record<string, unknown>>): ToolPlan {
  const { deadline_seconds: seconds, ...question } = args
  return {
    call: {
      toolCallId,
      toolName: builtInNames.askPerson,
      args: question,
      hostedBy: 'person',
      timeoutSeconds: typeof seconds === 'number' ? seconds : answerUsualSeconds,
      // A question takes no effect: when nobody answers, it may simply be asked again.
      idempotent: true,
    },
  }
}
