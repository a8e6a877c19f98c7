/**
 * The file of an evaluation suite, `evals/NAME.toml`: cases, checks and variants, and the suite as a run stores it. Whether a pattern or a JSON
 * schema is valid, and what the named files contain, is for evals/suite-file.ts of the product to decide.
 */
import { z } from '../../deferred.js'
import { evalCheckKinds, evalLimits } from '../../vocabulary.js'
import { fieldSpec, id, longText, record, text, token } from '../shapes.js'
import type { TrailCard } from '../trails.js'

export const evalName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,39}$/, 'must be 1 to 40 of the characters a-z, 0-9, _ and -')

export const whole = (max: number) => z.number().int().min(1).max(max)
/** At least a micro-dollar, at most any real bill. */
const dollars = z.number().min(0.000001).max(1_000_000)
const seconds = z.number().positive().max(86_400)
const oneOrMore = z.union([text(10_000), z.array(text(10_000)).min(1).max(20)])

const checkShape = {
  name: text(100).optional(),
  contains: oneOrMore.optional(),
  not_contains: oneOrMore.optional(),
  equals: longText.optional(),
  matches: text(500).optional(),
  fields: record.optional(),
  json_schema: record.optional(),
  max_cost_usd: dollars.optional(),
  max_seconds: seconds.optional(),
  max_tokens: whole(1_000_000_000).optional(),
  command: z.union([text(4_096), z.array(text(4_096)).min(1).max(100)]).optional(),
  judge: z.strictObject({ agent: token, question: text(20_000) }).optional(),
  timeout_seconds: seconds.max(600).optional(),
}
export const evalCheck = z.strictObject(checkShape).superRefine((check, context) => {
  const kinds = evalCheckKinds.filter((kind) => check[kind] !== undefined)
  const add = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message })
  if (kinds.length !== 1)
    add(
      kinds[1] ?? 'contains',
      `must have exactly one of ${evalCheckKinds.join(', ')} per check, for example contains = "30 days"`,
    )
  if (check.timeout_seconds !== undefined && check.command === undefined)
    add('timeout_seconds', 'must come with "command"')
})
export type EvalCheck = z.output<typeof evalCheck>

const inputKeys = ['instruction', 'file', 'turn', 'trail'] as const
const evalCase = z
  .strictObject({
    name: text(100),
    instruction: longText.min(1).optional(),
    file: text(500).optional().describe('a text file in the folder evals/'),
    turn: id.optional().describe('a recorded turn of the project, whose input the case takes'),
    trail: text(500).optional().describe('an exported trail in the folder evals/, whose input the case takes'),
    checks: z.array(evalCheck).max(evalLimits.checks).default([]),
  })
  .superRefine((one, context) => {
    const inputs = inputKeys.filter((key) => one[key] !== undefined)
    if (inputs.length === 1) return
    const message =
      'must have exactly one of "instruction", "file", "turn" and "trail", for example file = "refund.txt"'
    context.addIssue({ code: 'custom', path: [inputs[1] ?? 'instruction'], message })
  })

const evalVariant = z.strictObject({
  name: evalName.optional(),
  agent: token,
  instructions: longText.min(1).max(50_000).optional().describe('replaces the instructions of the agent file'),
  model: text(200).optional().describe('replaces the model of the agent file'),
})

const mustBeUnique = (add: (path: PropertyKey[], message: string) => void, key: string, names: readonly string[]) => {
  const seen = new Set<string>()
  for (const [at, name] of names.entries()) {
    if (seen.has(name))
      add([key, at, 'name'], `must be unique: another of the ${key} has the name ${JSON.stringify(name)}`)
    seen.add(name)
  }
}

export const evalSuiteFile = z
  .strictObject({
    description: text(500).optional(),
    repeat: whole(evalLimits.repeat).default(1),
    concurrency: whole(evalLimits.concurrency).default(4),
    max_cost_usd: dollars.optional().describe('the most that a run may spend, judges included'),
    turn_seconds: seconds.default(600).describe('ends a turn after this time'),
    result_fields: z.array(fieldSpec).max(100).optional(),
    checks: z.array(evalCheck).max(evalLimits.checks).default([]),
    variants: z.array(evalVariant).min(1).max(evalLimits.variants),
    cases: z.array(evalCase).min(1).max(evalLimits.cases),
  })
  .superRefine((suite, context) => {
    const add = (path: PropertyKey[], message: string) => context.addIssue({ code: 'custom', path, message })
    mustBeUnique(
      add,
      'cases',
      suite.cases.map(({ name }) => name),
    )
    mustBeUnique(
      add,
      'variants',
      suite.variants.map(({ name, agent }) => name ?? agent),
    )
    const { cases, variants, repeat } = suite
    const turns = cases.length * variants.length * repeat
    if (turns > evalLimits.results)
      add(['repeat'], `must give at most ${evalLimits.results} turns: cases × variants × repeat is ${turns}`)
    for (const [at, one] of cases.entries())
      if (one.checks.length + suite.checks.length > evalLimits.checks)
        add(['cases', at, 'checks'], `must be at most ${evalLimits.checks}, with the checks of the suite`)
    for (const [at, { name, instructions, model }] of variants.entries())
      if (name === undefined && (instructions ?? model) !== undefined)
        add(
          ['variants', at, 'name'],
          'must name a variant with its own "instructions" or "model", for example name = "terse"',
        )
  })
export type EvalSuiteFile = z.output<typeof evalSuiteFile>

/** A suite whose files were read: what a run stores when it starts. */
export interface EvalDefinition extends Omit<EvalSuiteFile, 'cases' | 'variants'> {
  readonly variants: readonly EvalDefinedVariant[]
  readonly cases: readonly EvalDefinedCase[]
}

interface EvalDefinedVariant extends z.output<typeof evalVariant> {
  readonly name: string
  /** The agent that runs it: another one if the variant changes its instructions or model. */
  readonly runs: string
}

export interface EvalDefinedCase extends Omit<z.output<typeof evalCase>, 'file' | 'trail'> {
  /** The cards of an exported trail. */
  readonly cards?: readonly Pick<TrailCard, 'type' | 'role' | 'content' | 'metadata'>[]
}
