/**
 * Loads the board's policies: the defaults, overridden key by key by the files of a task root. The result is complete. All
 * problems are reported at once, each with its file, its key and the nearest valid key. A problem in the knowledge policy
 * does not fail: it is returned as `knowledgeError`.
 */
import { InvalidInput } from '@bellwether/protocol'
import type { z } from 'zod'
import { defaultCallPolicy, type CallPolicy } from '../../ports/retry.js'
import { acceptanceFile, acceptanceShape, defaultAcceptance, type AcceptancePolicy } from './acceptance.js'
import { budgetFile, budgetShape, defaultBudget, type BudgetPolicy } from './budget.js'
import { isObject, type JsonObject } from '../log/json.js'
import { parseObject, readInside } from './inside.js'
import { knowledgeFile, knowledgeShape, defaultKnowledge, type KnowledgePolicy } from './knowledge.js'
import { isReferenceAcceptance, referenceAcceptanceShape } from './reference-acceptance.js'
import { human, recoveryFile, recoveryShape, defaultRecovery, type RecoveryPolicy } from './recovery.js'
import { asRetryFile, callPolicy, retryFile, retryShape } from './retry.js'
import { asRuntimePolicy, runtimeFile, type RuntimePolicy } from './runtime.js'
import { problemsOf, reservedKeys } from './shape.js'

export interface BoardPolicies {
  readonly calls: CallPolicy
  readonly recovery: RecoveryPolicy
  readonly budget: BudgetPolicy
  readonly knowledge: KnowledgePolicy
  /** Why config/knowledge-feedback.json could not be used; dispatch then continues without hints. */
  readonly knowledgeError: string | null
  readonly acceptance: AcceptancePolicy
  readonly runtime: RuntimePolicy
}

/** Merges objects key by key; every other value replaces the base; undefined changes nothing. */
export function merged<T>(base: T, over: unknown): T {
  if (!isObject(base) || !isObject(over)) return over === undefined ? base : (over as T)
  const result = new Map(Object.entries(base))
  for (const [key, value] of Object.entries(over)) {
    if (value !== undefined) result.set(key, result.has(key) ? merged(result.get(key), value) : value)
  }
  return Object.fromEntries(result) as T
}

/** Every policy file of a task root. */
export const policyFiles = [retryFile, recoveryFile, budgetFile, acceptanceFile, knowledgeFile, runtimeFile] as const

/** JSON has no comments: a policy file may have a text, or a list of texts, as `$comment` in any object. */
const commentKey = '$comment'
const isComment = (value: unknown): boolean =>
  typeof value === 'string' || (Array.isArray(value) && value.every((one) => typeof one === 'string'))

function withoutComments(value: JsonObject): JsonObject {
  const entries = Object.entries(value).filter(([key, inner]) => key !== commentKey || !isComment(inner))
  return Object.fromEntries(entries.map(([key, inner]) => [key, isObject(inner) ? withoutComments(inner) : inner]))
}

/** The files with the defaults, as `init` writes them: complete, valid, and with a comment for the person who edits them. */
export function defaultPolicyFiles(
  recoveryChain: readonly string[],
): readonly (readonly [path: string, text: string])[] {
  const file = (path: string, comment: string, policy: object) => {
    const more = 'docs/policies.md explains every key. A key that you remove keeps its default.'
    return [path, `${JSON.stringify({ [commentKey]: [comment, more], ...policy }, undefined, 2)}\n`] as const
  }
  const about = {
    retry: 'How long a call of the board may take, in seconds, and how often it is tried.',
    recovery: 'Who retries a failed task, in order, how often, and after which pause. A human is always last.',
    budget: 'What one task may use over all its runs: under "global" for every agent, under "agents" per agent.',
    acceptance: 'Which evidence a task needs to be done: under "default" for every role, under "roles" per role.',
    knowledge: 'Which hints from earlier runs the next agent gets. Off unless "enabled" is true.',
  }
  return [
    file(retryFile, about.retry, asRetryFile(defaultCallPolicy)),
    file(recoveryFile, about.recovery, { ...defaultRecovery, recoveryChain }),
    file(budgetFile, about.budget, defaultBudget),
    file(acceptanceFile, about.acceptance, defaultAcceptance),
    file(knowledgeFile, about.knowledge, defaultKnowledge),
  ]
}

/** Reads one policy file. Undefined: there is none, or it has problems, which are added to the list. */
async function override<S extends z.ZodType>(
  root: string,
  file: string,
  shape: S,
  problems: string[],
  shapeFor: (file: JsonObject) => z.ZodType<z.output<S>> = () => shape as z.ZodType<z.output<S>>,
): Promise<z.output<S> | undefined> {
  const read = await readInside(root, file)
  if (read.found === 'absent') return undefined
  if (read.found !== 'text') {
    problems.push(`${file}: cannot read it: ${read.why}`)
    return undefined
  }
  const parsed = parseObject(read.text)
  if ('why' in parsed) {
    problems.push(`${file}: ${parsed.why}`)
    return undefined
  }
  const value = withoutComments(parsed.value)
  const reserved = reservedKeys(file, value)
  if (reserved.length > 0) {
    problems.push(...reserved)
    return undefined
  }
  const schema = shapeFor(value)
  const checked = schema.safeParse(value)
  if (checked.success) return checked.data
  problems.push(...problemsOf(file, schema, checked.error))
  return undefined
}

/** A human is always last in the chain. */
function withHuman(policy: RecoveryPolicy): RecoveryPolicy {
  const agents = policy.recoveryChain.filter((name) => name !== human)
  return { ...policy, recoveryChain: [...new Set(agents), human] }
}

async function runtimeOf(root: string, problems: string[]): Promise<RuntimePolicy> {
  const read = await readInside(root, runtimeFile)
  if (read.found === 'absent') return asRuntimePolicy({})
  const parsed = read.found === 'text' ? parseObject(read.text) : read
  if ('value' in parsed) return asRuntimePolicy(parsed.value)
  problems.push(`${runtimeFile}: ${parsed.why}; run bellwether migrate-config-v2 --apply to write a valid file`)
  return asRuntimePolicy({})
}

// Enough to start correcting a file.
const problemsMax = 20

function rejectProblems(problems: readonly string[]): void {
  if (problems.length === 0) return
  const more = problems.length > problemsMax ? [`… and ${problems.length - problemsMax} more`] : []
  throw new InvalidInput(
    `Invalid policy files, ${problems.length} problem(s):\n${[...problems.slice(0, problemsMax), ...more].join('\n')}`,
    { code: 'invalid_policy', hint: 'Correct every key named above; docs/policies.md lists all keys.' },
  )
}

/** Throws InvalidInput `invalid_policy`. */
export async function loadPolicies(root: string): Promise<BoardPolicies> {
  const problems: string[] = []
  const knowledgeProblems: string[] = []
  const runtime = await runtimeOf(root, problems)
  const [retry, recovery, budget, acceptance, knowledge] = [
    await override(root, retryFile, retryShape, problems),
    await override(root, recoveryFile, recoveryShape, problems),
    await override(root, budgetFile, budgetShape, problems),
    await override(root, acceptanceFile, acceptanceShape, problems, (file) =>
      isReferenceAcceptance(file) ? referenceAcceptanceShape : acceptanceShape,
    ),
    await override(root, knowledgeFile, knowledgeShape, knowledgeProblems),
  ]
  rejectProblems(problems)
  const explicit = { retry: runtime.explicit.retryPolicy }
  const guardrails = { global: runtime.explicit.guardrails }
  return {
    calls: callPolicy(merged(merged(asRetryFile(defaultCallPolicy), explicit), retry)),
    recovery: withHuman(merged(defaultRecovery, recovery)),
    budget: merged(merged(defaultBudget, guardrails), budget),
    knowledge: merged(defaultKnowledge, knowledge),
    knowledgeError: knowledgeProblems.length === 0 ? null : knowledgeProblems.slice(0, problemsMax).join('; '),
    acceptance: merged(defaultAcceptance, acceptance),
    runtime,
  }
}
