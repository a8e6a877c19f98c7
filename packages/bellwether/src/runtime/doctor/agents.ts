/** Checks of the agents: valid files, the programs, keys and models that they need, and limits that end real work. */
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { readProjectFile } from '../../settings/regular-file.js'
import { errorMessage, type Environment } from '@bellwether/base'
import type { BudgetPolicy } from '../../board/policies/budget.js'
import { commandLine } from '../../worker/executors/presets.js'
import {
  functionRefusal,
  isAgentFile,
  readAgentFile,
  type AgentFile,
  type AgentSettings,
} from '../../worker/roster/agent-file.js'
import { codingAgents, findProgram, isSignedIn } from '../coding-agents.js'
import { absent, bad, good, warning, type Found } from './finding.js'

export interface ReadAgents {
  readonly files: readonly string[]
  readonly agents: readonly AgentFile[]
  readonly problems: readonly string[]
}

export async function agentFiles(folder: string): Promise<string[]> {
  const names = await readdir(join(folder, 'agents')).catch(absent)
  return names?.filter(isAgentFile) ?? []
}

/** `hasAgentsFile`: functions may come from an agents file. */
export async function readAgents(folder: string, hasAgentsFile: boolean): Promise<ReadAgents> {
  const files = await agentFiles(folder)
  const agents: AgentFile[] = []
  const problems: string[] = []
  for (const file of files.sort()) {
    const read = await readAgent(folder, join('agents', file))
    const refusal = 'agent' in read && !hasAgentsFile ? functionRefusal(read.agent) : undefined
    if ('problems' in read) problems.push(...read.problems)
    else if (refusal !== undefined) problems.push(refusal)
    else agents.push(read.agent)
  }
  return { files, agents, problems }
}

/** A file that cannot be read is a problem like an invalid one. */
async function readAgent(folder: string, file: string): Promise<ReturnType<typeof readAgentFile>> {
  try {
    return readAgentFile(file, await readProjectFile(join(folder, file)))
  } catch (error) {
    return { problems: [`${file}: ${errorMessage(error)}`] }
  }
}

export function checkAgents({ files, problems }: ReadAgents): Found {
  if (files.length === 0) return warning('no agents', 'create two examples: bellwether init')
  return problems.length === 0
    ? good(`${files.length} agent files`)
    : bad(problems.join('; '), 'correct the files; the other agents still work')
}

/** Several problems of one check: each line of `found` has the line of `fix` with the same number. */
function collected(problems: readonly (readonly [found: string, fix: string])[], otherwise: string): Found {
  if (problems.length === 0) return good(otherwise)
  const fixes = [...new Set(problems.map(([, fix]) => fix))]
  return warning(problems.map(([found]) => found).join('\n'), fixes.join('\n'))
}

const fileOf = ({ name }: AgentFile) => `agents/${name}.md`

/** The programs of command agents. `up` looks for them with the same PATH if it is started in the same way. */
export function checkPrograms({ agents }: ReadAgents, folder: string, env: Environment): Found {
  const needed = agents.flatMap((agent) => {
    const { settings } = agent
    if (settings.executor !== 'command') return []
    return [{ agent, program: commandLine(settings).command[0] ?? '', cwd: resolve(folder, settings.cwd ?? '.') }]
  })
  const missing = needed.filter(({ program, cwd }) => findProgram(program, env, cwd) === undefined)
  return collected(
    missing.map(({ agent, program, cwd }) => {
      const { preset } = agent.settings
      if (program.includes('/') && existsSync(resolve(cwd, program)))
        return [`${fileOf(agent)} needs the program "${program}", which is not executable`, `chmod +x ${program}`]
      const fix =
        preset === undefined
          ? `install ${program}, or correct "command"`
          : `install it: ${codingAgents[preset].install}`
      return [`${fileOf(agent)} needs the program "${program}", which is not on the PATH`, fix]
    }),
    needed.length === 0 ? 'none needed' : [...new Set(needed.map(({ program }) => program))].join(', '),
  )
}

/** Keys of models, and of coding agents that have not signed in themselves. */
export function checkKeys({ agents }: ReadAgents, folder: string, env: Environment): Found {
  const isSet = (name: string) => (env[name] ?? '').trim() !== ''
  const problems = agents.flatMap((agent): (readonly [string, string])[] => {
    const { executor, model, preset } = agent.settings
    if (executor === 'model' && model !== undefined)
      return modelKeys(model, isSet).map(({ missing, fix }) => [
        `${fileOf(agent)} (model ${model}) needs ${missing}`,
        fix,
      ])
    if (preset === undefined || findProgram(preset, env, folder) === undefined) return []
    const { keys, signIn } = codingAgents[preset]
    const passed = (agent.settings.env ?? []).filter((name) => keys.includes(name) && isSet(name))
    if (passed.length > 0) return []
    const set = keys.filter(isSet)
    // The key of this terminal reaches the program only if the agent file names it.
    if (set.length > 0 && !isSignedIn(preset, { HOME: env['HOME'] }))
      return [[`${fileOf(agent)} does not pass ${set[0]} to ${preset}`, `add to ${fileOf(agent)}: env: [${set[0]}]`]]
    if (isSignedIn(preset, { HOME: env['HOME'] })) return []
    return [
      [
        `${preset} of ${fileOf(agent)} has no key and has not signed in`,
        `sign in once: ${signIn}; or export ${keys[0]}=… and restart up`,
      ],
    ]
  })
  return collected(problems, 'the installed programs and the models have what they need')
}

function modelKeys(
  model: string,
  isSet: (name: string) => boolean,
): readonly { readonly missing: string; readonly fix: string }[] {
  const provider = model.split('/')[0] ?? ''
  const prefix = provider.toUpperCase().replaceAll('-', '_')
  const key = `${prefix}_API_KEY`
  if (provider === 'anthropic' || provider === 'openai') {
    if (isSet(key) || (provider === 'openai' && isSet(`${prefix}_BASE_URL`))) return []
    return [{ missing: key, fix: `export ${key}=… and restart up` }]
  }
  if (!model.includes('/') || isSet(`${prefix}_BASE_URL`)) return []
  return [{ missing: `${prefix}_BASE_URL`, fix: `export ${prefix}_BASE_URL=https://… and restart up` }]
}

// A small task of a coding agent; most of it is what the program itself sends.
const realTaskTokens = 100_000

/** Limits that end a real coding agent within its first task. */
export function checkLimits(
  { agents }: ReadAgents,
  budget: Pick<BudgetPolicy, 'global' | 'agents'>,
  file: string,
): Found {
  const problems: (readonly [string, string])[] = []
  const add = (where: string, tokens: number | null | undefined, fix: string) => {
    if (typeof tokens === 'number' && tokens < realTaskTokens)
      problems.push([`${where} is ${tokens} tokens; a coding agent needs 100,000 and more for a task`, fix])
  }
  add(`"global.maxTaskTokens" of ${file}`, budget.global.maxTaskTokens, `raise it, or set it to null: ${file}`)
  for (const [name, { maxTaskTokens }] of Object.entries(budget.agents))
    add(`"agents.${name}.maxTaskTokens" of ${file}`, maxTaskTokens, `raise it, or set it to null: ${file}`)
  for (const agent of agents) {
    const { preset, budget: own }: AgentSettings = agent.settings
    if (preset !== undefined)
      add(`"budget.max_tokens" of ${fileOf(agent)}`, own?.max_tokens, `raise it, or remove it: ${fileOf(agent)}`)
  }
  return collected(problems, 'no limit that a real task would exceed')
}
