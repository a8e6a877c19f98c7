/**
 * One agent in one file, `agents/NAME.md`: what executes it and within which bounds, then its instructions in words. Pure. A bad
 * file is told with its name, the line and the nearest key; several mistakes are told at once.
 */
import { InvalidInput, isToken } from '@bellwether/protocol'
import { z } from 'zod'
import { allowedName } from '../../ports/processes/environment.js'
import { nearest } from '../../settings/nearest.js'
import { degrade, modelKeys, modelTrouble, priceKeys } from '../executors/model/model-front-matter.js'
import { askingSeconds, fallbackAgent, isFallback, defaultDeadlineSeconds } from '../executors/person/spec.js'
import { presetNames } from '../executors/presets.js'
import { readFrontMatter } from './front-matter.js'

// A profile is kept in the database with the instructions in it, where 64 KiB is the limit of such a value.
export const fileMaxBytes = 61_440

const name = z.string().min(1).max(4_096)
const names = z.array(name).max(1_000)
const positive = z.number().positive()
const yearSeconds = 31_536_000
const toolItemHint =
  'a tool is a name of a-z, 0-9, _ and -, or mcp:SERVER, or mcp:SERVER/TOOL; * stands for any characters'
const isToolItem = (item: string) => /^(?:[a-z0-9_*-]{1,120}|mcp:[^/\s]{1,100}(?:\/\S{1,256})?)$/.test(item)

const shape = z.strictObject({
  executor: z.enum(['model', 'command', 'function', 'person']).optional(),
  description: z.string().max(1_000).optional(),
  model: name.optional(),
  command: z.union([name, names.min(1)]).optional(),
  preset: z.enum(presetNames).optional(),
  args: names.optional(),
  env: names.optional(),
  output: z.enum(['text', 'json']).optional(),
  cwd: name.optional(),
  on_takeover: z.enum(['rerun', 'fail']).optional(),
  tools: z.array(z.string().refine(isToolItem, toolItemHint)).max(1_000).optional(),
  worker_target: z.string().refine(isToken, 'must be 1 to 120 of the characters a-z, 0-9, _ and -').optional(),
  must_end_with: name.optional(),
  ...modelKeys,
  budget: z
    .strictObject({
      max_tokens: positive.int().max(1e12).optional(),
      max_cost_usd: positive.max(1e9).optional(),
      max_wall_seconds: positive.max(yearSeconds).optional(),
      max_steps: positive.int().max(1e6).optional(),
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

/** Where an agent works whose file names no worker_target. */
export const usualTarget = 'default'
const keys = Object.keys(shape.shape)
const budgetKeys = Object.keys(shape.shape.budget.unwrap().shape)
const personOnly = ['people', 'choices', 'answer_within_seconds', 'fallback'] as const
const commandOnly = ['command', 'preset', 'args', 'env', 'output', 'on_takeover'] as const

export type ReadFile = { readonly agent: AgentFile } | { readonly problems: readonly string[] }

/** `file`: as it is shown in messages; its name is the agent's. */
export function readAgentFile(file: string, text: string): ReadFile {
  const agentName = file.replace(/^.*\//, '').replace(/\.md$/, '')
  const at = (line: number, message: string) => `${file}:${line}: ${message}`
  if (!isToken(agentName)) {
    return { problems: [`${file}: the file's name is the agent's: use only a-z, 0-9, _ and - before .md`] }
  }
  // As it is kept: every line break and quote counts twice.
  if (Buffer.byteLength(JSON.stringify(text)) > fileMaxBytes) {
    return { problems: [`${file}: the file is larger than ${fileMaxBytes} bytes; put long texts beside it`] }
  }
  if (text.includes('\0')) return { problems: [`${file}: the file is no text: it has a NUL character`] }
  const matter = readFrontMatter(text)
  if ('problem' in matter) return { problems: [at(matter.problem.line, matter.problem.message)] }
  const { lineOf } = matter
  // A key without a value is as good as absent.
  const values = Object.fromEntries(Object.entries(matter.values).filter(([, value]) => value !== null))
  const parsed = shape.safeParse(values)
  if (!parsed.success) {
    const problems = parsed.error.issues.flatMap((issue) =>
      issue.code === 'unrecognized_keys' ? unknownKeys(issue.path, issue.keys) : [wrongValue(issue)],
    )
    return { problems: problems.map(([key, message]) => at(lineOf(key), message)) }
  }
  const settings = parsed.data
  const executor =
    settings.executor ?? ((settings.command ?? settings.preset) ? 'command' : settings.model ? 'model' : undefined)
  const wrong =
    disagreement({ ...settings, executor }) ??
    modelTrouble({ ...settings, executor }) ??
    personTrouble({ ...settings, executor }, agentName)
  if (wrong !== undefined) return { problems: [at(lineOf(wrong[0]), wrong[1])] }
  return {
    agent: {
      name: agentName,
      settings: {
        ...settings,
        executor: executor!,
        worker_target: settings.worker_target ?? usualTarget,
        // A turn that waits for people outlives them all, so that it can say itself that none of them answered.
        ...(executor === 'person' && settings.turn_deadline_seconds === undefined
          ? { turn_deadline_seconds: Math.min(yearSeconds, defaultDeadlineSeconds(settings)) }
          : {}),
      },
      instructions: matter.body,
    },
  }
}

type Problem = readonly [key: string, message: string]

function unknownKeys(path: readonly PropertyKey[], unknown: readonly string[]): Problem[] {
  return unknown.map((key) => {
    const whole = [...path, key].join('.')
    const meant = nearest(key, path.length === 0 ? keys : path[0] === 'prices' ? priceKeys : budgetKeys)
    return [whole, `there is no key ${whole}; did you mean ${[...path, meant].join('.')}?`]
  })
}

function wrongValue(issue: { readonly path: readonly PropertyKey[]; readonly message: string }): Problem {
  const key = issue.path.filter((part) => typeof part === 'string').join('.')
  return [key, `${key} cannot be used: ${issue.message.replace(/^Invalid input: /, '')}`]
}

/** Keys that are right by themselves and wrong together. */
function disagreement(settings: z.output<typeof shape>): Problem | undefined {
  const { executor, command, preset, model } = settings
  if (executor === undefined) return ['executor', 'the file says neither executor, nor command, preset or model']
  if (settings.tools !== undefined && executor !== 'model' && executor !== 'function')
    return ['tools', `tools is for executor model, and this one is ${executor}`]
  if (executor === 'command') {
    if (command === undefined && preset === undefined)
      return ['executor', `executor command needs command, or preset (${presetNames.join(', ')})`]
    if (command !== undefined && model !== undefined)
      return ['model', 'model is for a preset; write it into the command instead']
    if (settings.must_end_with !== undefined)
      return ['must_end_with', 'must_end_with is for executor model: a command ends when its program does']
    return (settings.env ?? []).map(forbidden).find((problem) => problem !== undefined)
  }
  const stray = commandOnly.find((key) => settings[key] !== undefined)
  if (stray !== undefined) return [stray, `${stray} is for executor command, and this one is ${executor}`]
  if (executor === 'model' && model === undefined) return ['executor', 'executor model needs model']
  return undefined
}

function personTrouble(settings: z.output<typeof shape>, agentName: string): Problem | undefined {
  const { executor, fallback, turn_deadline_seconds: deadline = yearSeconds } = settings
  const stray = personOnly.find((key) => settings[key] !== undefined)
  if (executor !== 'person')
    return stray === undefined ? undefined : [stray, `${stray} is for executor person, and this one is ${executor}`]
  if (settings.model !== undefined) return ['model', 'model is not for people']
  if (fallbackAgent({ fallback }) === agentName) return ['fallback', 'an agent cannot be its own fallback']
  const seconds = askingSeconds(settings)
  if (seconds < deadline) return undefined
  const key = settings.turn_deadline_seconds === undefined ? 'answer_within_seconds' : 'turn_deadline_seconds'
  return [key, `asking everybody may take ${seconds} seconds, and the turn ends after ${deadline}`]
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
