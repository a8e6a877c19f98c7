/**
 * Parses one agent file, `agents/NAME.md`: front matter with the executor and its limits, then the instructions. Pure. All problems of
 * a file are reported at once, each with file, line, reason and remedy.
 */
import { branchPattern, InvalidInput, isToken, memories, mergeModes, workspaceKinds } from '@bellwether/protocol'
import { z } from 'zod'
import { allowedName } from '../../ports/processes/environment.js'
import { entryHint, readEntry } from '../../ports/processes/sandbox/network.js'
import { isolations, memoryMb, sandboxes } from '../../settings/schema.js'
import { similar } from '../../settings/nearest.js'
import { degrade, modelFields, modelProblem, onlyFor, priceFields } from '../executors/model/model-front-matter.js'
import { askingSeconds, fallbackAgent, isFallback, defaultDeadlineSeconds } from '../executors/person/spec.js'
import { askingMaxSeconds, askingProblem } from '../executors/approvals/presets.js'
import { presetNames } from '../executors/presets.js'
import { invalidValue } from './invalid-value.js'
import { readFrontMatter } from './front-matter.js'

// The database stores the profile, including the instructions, in a value of at most 64 KiB.
export const fileMaxBytes = 61_440

/** Whether a file of the folder declares an agent. */
export const isAgentFile = (file: string) => file.endsWith('.md') && file !== 'README.md' && !file.startsWith('.')

const name = z.string().min(1).max(4_096)
const names = z.array(name).max(1_000)
const positive = z.number().positive()
const yearSeconds = 31_536_000
const toolItemHint =
  'a tool must be a name (a-z, 0-9, _ and -), mcp:SERVER or mcp:SERVER/TOOL; * matches any characters'
const isToolItem = (item: string) => /^(?:[a-z0-9_*-]{1,120}|mcp:[^/\s]{1,100}(?:\/\S{1,256})?)$/.test(item)

const shape = z.strictObject({
  executor: z.enum(['model', 'command', 'function', 'person']).optional(),
  description: z.string().max(1_000).optional(),
  model: name.optional(),
  account: z
    .string()
    .regex(/^[\w.:@/-]{1,120}$/, 'must be 1 to 120 of the characters A-Z, a-z, 0-9, _, ., :, @, / and -')
    .optional(),
  cheaper_model: name.optional(),
  command: z.union([name, names.min(1)]).optional(),
  preset: z.enum(presetNames).optional(),
  args: names.optional(),
  env: names.optional(),
  output: z.enum(['text', 'json']).optional(),
  cwd: name.optional(),
  on_takeover: z.enum(['rerun', 'fail']).optional(),
  resume: z.enum(['auto', 'never']).optional(),
  steering: z.enum(['auto', 'off']).optional(),
  approve: z.literal('ask').optional(),
  approve_within_seconds: positive.max(askingMaxSeconds).optional(),
  workspace: z.enum(workspaceKinds).optional(),
  sandbox: z.enum(sandboxes).optional(),
  network: z
    .union([
      z.enum(['on', 'off']),
      z.array(z.string().refine((item) => readEntry(item) !== undefined, entryHint)).max(1_000),
    ])
    .optional(),
  sandbox_read: names.optional(),
  sandbox_write: names.optional(),
  base: z.string().regex(branchPattern, 'must be the name of a branch').optional(),
  merge: z.enum(mergeModes).optional(),
  module: name.optional(),
  isolation: z.enum(isolations).optional(),
  memory: z.enum(memories).optional(),
  memory_max_mb: positive.int().min(memoryMb.min).max(memoryMb.max).optional(),
  tools: z.array(z.string().refine(isToolItem, toolItemHint)).max(1_000).optional(),
  worker_target: z.string().refine(isToken, 'must be 1 to 120 of the characters a-z, 0-9, _ and -').optional(),
  must_end_with: name.optional(),
  ...modelFields,
  budget: z
    .strictObject({
      max_tokens: positive.int().max(1e12).optional(),
      max_cost_usd: positive.max(1e9).optional(),
      max_wall_seconds: positive.max(yearSeconds).optional(),
      max_steps: positive.int().max(1e6).optional(),
      max_repeats: positive.int().min(2).max(1_000).optional(),
      degrade,
    })
    .optional(),
  turn_deadline_seconds: positive.max(yearSeconds).optional(),
  people: z.array(name.max(120)).min(1).max(20).optional(),
  choices: z.array(name).min(1).max(100).optional(),
  answer_within_seconds: positive.max(2_592_000).optional(),
  fallback: z.string().refine(isFallback, 'must be "fail", or "agent NAME"').optional(),
})

export type AgentSettings = Omit<z.output<typeof shape>, 'executor' | 'worker_target'> & {
  readonly executor: 'model' | 'command' | 'function' | 'person'
  readonly worker_target: string
}

export interface AgentFile {
  readonly name: string
  readonly settings: AgentSettings
  readonly instructions: string
}

/** The worker target of an agent whose file names none. */
export const defaultTarget = 'default'
const knownKeys = Object.keys(shape.shape)
const budgetKeys = Object.keys(shape.shape.budget.unwrap().shape)
const personOnly = ['people', 'choices', 'answer_within_seconds', 'fallback'] as const
const functionOnly = ['module', 'isolation', 'memory_max_mb'] as const
const commandOnly = [
  ...(['command', 'preset', 'args', 'env', 'output', 'on_takeover', 'resume', 'steering'] as const),
  ...(['workspace', 'base', 'merge', 'sandbox', 'network', 'sandbox_read', 'sandbox_write'] as const),
  ...(['approve', 'approve_within_seconds'] as const),
] as const

export type AgentFileResult = { readonly agent: AgentFile } | { readonly problems: readonly string[] }

/** `file` is the path for messages; its base name is the agent's id. */
export function readAgentFile(file: string, text: string): AgentFileResult {
  const agentName = file.replace(/^.*\//, '').replace(/\.md$/, '')
  const at = (line: number, message: string) => `${file}:${line}: ${message}`
  if (!isToken(agentName)) {
    return {
      problems: [
        `${file}: the file name must be the agent's id. Rename the file: use only a-z, 0-9, _ and - before .md`,
      ],
    }
  }
  // Measured as stored: every line break and quote takes two bytes.
  if (Buffer.byteLength(JSON.stringify(text)) > fileMaxBytes) {
    return { problems: [`${file}: the file is larger than ${fileMaxBytes} bytes. Move long texts into other files`] }
  }
  if (text.includes('\0'))
    return { problems: [`${file}: the file is not a text file, because it contains a NUL character`] }
  const matter = readFrontMatter(text)
  if ('problem' in matter) return { problems: [at(matter.problem.line, matter.problem.message)] }
  const { lineOf } = matter
  // A key without a value counts as absent.
  const values = Object.fromEntries(Object.entries(matter.values).filter(([, value]) => value !== null))
  const parsed = shape.safeParse(values)
  if (!parsed.success) {
    const problems = parsed.error.issues.flatMap((issue) =>
      issue.code === 'unrecognized_keys' ? unknownKeys(issue.path, issue.keys) : [wrongValue(issue, values)],
    )
    return { problems: problems.map(([key, message]) => at(lineOf(key), message)) }
  }
  const settings = parsed.data
  const executor = settings.executor ?? impliedExecutor(settings)
  const problem =
    conflict({ ...settings, executor }) ??
    modelProblem({ ...settings, executor }) ??
    personProblem({ ...settings, executor }, agentName)
  if (problem !== undefined) return { problems: [at(lineOf(problem[0]), problem[1])] }
  return {
    agent: {
      name: agentName,
      settings: {
        ...settings,
        executor: executor!,
        worker_target: settings.worker_target ?? defaultTarget,
        // The turn outlives all waits for people, so that it can report itself that no one answered.
        ...(executor === 'person' && settings.turn_deadline_seconds === undefined
          ? { turn_deadline_seconds: Math.min(yearSeconds, defaultDeadlineSeconds(settings)) }
          : {}),
      },
      instructions: matter.body,
    },
  }
}

/** Why a function agent without a module cannot run where no agents file is configured. */
export function functionRefusal({ name, settings }: AgentFile): string | undefined {
  if (settings.executor !== 'function' || settings.module !== undefined) return undefined
  return `agents/${name}.md: executor "function" has no code here. Add "module: FILE" to it, or name a file with a function "${name}": bellwether up --agents FILE, or "agents" in [worker] of bellwether.toml`
}

type Problem = readonly [key: string, message: string]

function unknownKeys(path: readonly PropertyKey[], unknown: readonly string[]): Problem[] {
  return unknown.map((key) => {
    const fullKey = [...path, key].join('.')
    const isPrice = path[0] === 'prices' || path[0] === 'cheaper_prices'
    const inBudget = budgetKeys.map((one) => `budget.${one}`)
    const meant = similar(key, path.length === 0 ? [...knownKeys, ...inBudget] : isPrice ? priceFields : budgetKeys)
    if (meant === undefined) return [fullKey, `unknown key "${fullKey}". docs/guides/agents.md lists all keys`]
    return [fullKey, `unknown key "${fullKey}". Did you mean "${[...path, meant].join('.')}"?`]
  })
}

function wrongValue(issue: z.core.$ZodIssue, values: unknown): Problem {
  const key = issue.path.filter((part) => typeof part === 'string').join('.')
  return [key, invalidValue(key, issue, values)]
}

const impliedExecutor = ({ command, preset, model, module }: z.output<typeof shape>) =>
  (command ?? preset) ? 'command' : model ? 'model' : module ? 'function' : undefined

/** Keys that are valid alone and invalid together. */
function conflict(settings: z.output<typeof shape>): Problem | undefined {
  const { executor, command, preset, model } = settings
  if (executor === undefined)
    return ['executor', 'the executor is missing. Add "executor", "command", "preset", "model" or "module"']
  const ofFunction = functionOnly.find((key) => settings[key] !== undefined)
  if (executor !== 'function' && ofFunction !== undefined)
    return [ofFunction, onlyFor(ofFunction, 'function', executor)]
  const needsIsolation = (['module', 'memory_max_mb'] as const).find((key) => settings[key] !== undefined)
  if (settings.isolation === 'none' && needsIsolation !== undefined)
    return ['isolation', `"isolation" must be "thread" or "process" with "${needsIsolation}". Change it or remove it`]
  if (settings.tools !== undefined && executor !== 'model' && executor !== 'function')
    return ['tools', onlyFor('tools', 'model', executor)]
  if (settings.account !== undefined && executor !== 'model' && executor !== 'command')
    return ['account', onlyFor('account', 'model" and "command', executor)]
  if (settings.cheaper_model !== undefined && executor !== 'model' && executor !== 'command')
    return ['cheaper_model', onlyFor('cheaper_model', 'model', executor)]
  if (executor === 'command') {
    if (command === undefined && preset === undefined)
      return ['executor', `executor "command" requires "command" or "preset" (${presetNames.join(', ')})`]
    const ofPreset = (['model', 'cheaper_model'] as const).find((key) => settings[key] !== undefined)
    if (command !== undefined && ofPreset !== undefined)
      return [ofPreset, `"${ofPreset}" requires a preset. Put the model into "command" instead`]
    if (settings.must_end_with !== undefined) return ['must_end_with', onlyFor('must_end_with', 'model', executor)]
    const unasked = settings.approve === 'ask' ? askingProblem(settings) : undefined
    if (unasked !== undefined) return ['approve', unasked]
    if (settings.approve === undefined && settings.approve_within_seconds !== undefined)
      return ['approve_within_seconds', '"approve_within_seconds" requires "approve: ask". Add it, or remove this key']
    return (settings.env ?? []).map(forbidden).find((problem) => problem !== undefined)
  }
  const stray = commandOnly.find((key) => settings[key] !== undefined)
  if (stray !== undefined) return [stray, onlyFor(stray, 'command', executor)]
  if (executor === 'model' && model === undefined) return ['executor', 'executor "model" requires "model"']
  return undefined
}

function personProblem(settings: z.output<typeof shape>, agentName: string): Problem | undefined {
  const { executor, fallback, turn_deadline_seconds: deadline = yearSeconds } = settings
  const stray = personOnly.find((key) => settings[key] !== undefined)
  if (executor !== 'person') return stray === undefined ? undefined : [stray, onlyFor(stray, 'person', executor)]
  if (settings.model !== undefined) return ['model', '"model" cannot be used with executor "person". Remove it']
  if (fallbackAgent({ fallback }) === agentName)
    return ['fallback', 'an agent cannot be its own "fallback". Name another agent, or "fail"']
  const seconds = askingSeconds(settings)
  if (seconds < deadline) return undefined
  const key = settings.turn_deadline_seconds === undefined ? 'answer_within_seconds' : 'turn_deadline_seconds'
  return [
    key,
    `asking everyone may take ${seconds} s, but the turn ends after ${deadline} s. Increase "turn_deadline_seconds" or reduce "answer_within_seconds"`,
  ]
}

function forbidden(variable: string): Problem | undefined {
  try {
    allowedName(variable)
    return undefined
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return ['env', error.message]
  }
}
