/**
 * Loads the board's policies: what is shipped, and over it, key by key, the files of a task root. Always: what is returned is
 * complete; an override drops nothing but the keys it names; everything that does not fit is told at once, each with its
 * file, its key and the nearest key that exists. Only knowledge never stops anybody: its trouble is returned beside it.
 */
import { InvalidInput } from '@bellwether/protocol'
import type { z } from 'zod'
import { defaultCallPolicy, type CallPolicy } from '../../ports/retry.js'
import { acceptanceFile, acceptanceShape, shippedAcceptance, type AcceptancePolicy } from './acceptance.js'
import { budgetFile, budgetShape, shippedBudget, type BudgetPolicy } from './budget.js'
import { parseObject, readInside } from './inside.js'
import { knowledgeFile, knowledgeShape, shippedKnowledge, type KnowledgePolicy } from './knowledge.js'
import { human, recoveryFile, recoveryShape, shippedRecovery, type RecoveryPolicy } from './recovery.js'
import { asRetryFile, callPolicy, retryFile, retryShape } from './retry.js'
import { asRuntimePolicy, runtimeFile, type RuntimePolicy } from './runtime.js'
import { problemsOf, reservedKeys } from './shape.js'

export interface BoardPolicies {
  readonly calls: CallPolicy
  readonly recovery: RecoveryPolicy
  readonly budget: BudgetPolicy
  readonly knowledge: KnowledgePolicy
  /** Why config/knowledge-feedback.json could not be used: then knowledge degrades, and dispatch goes on. */
  readonly knowledgeError: string | null
  readonly acceptance: AcceptancePolicy
  readonly runtime: RuntimePolicy
}

const isTable = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Tables are merged key by key, everything else is replaced; keys that say nothing (undefined) change nothing. */
export function merged<T>(base: T, over: unknown): T {
  if (!isTable(base) || !isTable(over)) return over === undefined ? base : (over as T)
  const result = new Map(Object.entries(base))
  for (const [key, value] of Object.entries(over)) {
    if (value !== undefined) result.set(key, result.has(key) ? merged(result.get(key), value) : value)
  }
  return Object.fromEntries(result) as T
}

/** The override of one file as its schema reads it; undefined when there is no file. Problems go into the list. */
async function override<S extends z.ZodType>(
  root: string,
  file: string,
  schema: S,
  problems: string[],
): Promise<z.output<S> | undefined> {
  const read = await readInside(root, file)
  if (read.found === 'absent') return undefined
  if (read.found !== 'text') {
    problems.push(`${file}: it cannot be used: ${read.why}`)
    return undefined
  }
  const parsed = parseObject(read.text)
  if ('why' in parsed) {
    problems.push(`${file}: ${parsed.why}`)
    return undefined
  }
  const reserved = reservedKeys(file, parsed.value)
  if (reserved.length > 0) {
    problems.push(...reserved)
    return undefined
  }
  const checked = schema.safeParse(parsed.value)
  if (checked.success) return checked.data
  problems.push(...problemsOf(file, schema, checked.error))
  return undefined
}

/** A human is last, whether the file says so or not: somebody must be left to ask. */
function withHuman(policy: RecoveryPolicy): RecoveryPolicy {
  const agents = policy.recoveryChain.filter((name) => name !== human)
  return { ...policy, recoveryChain: [...new Set(agents), human] }
}

async function runtimeOf(root: string, problems: string[]): Promise<RuntimePolicy> {
  const read = await readInside(root, runtimeFile)
  if (read.found === 'absent') return asRuntimePolicy({})
  const parsed = read.found === 'text' ? parseObject(read.text) : read
  if ('value' in parsed) return asRuntimePolicy(parsed.value)
  problems.push(`${runtimeFile}: ${parsed.why}; bellwether migrate-config-v2 --apply writes a valid one`)
  return asRuntimePolicy({})
}

// A file with a thousand mistakes is told by its first ones.
const problemsMax = 20

function refuse(problems: readonly string[]): void {
  if (problems.length === 0) return
  const more = problems.length > problemsMax ? [`… and ${problems.length - problemsMax} more`] : []
  throw new InvalidInput(
    `the policies have ${problems.length} problem(s):\n${[...problems.slice(0, problemsMax), ...more].join('\n')}`,
    { code: 'invalid_policy', hint: 'correct every line named above; docs/policies.md lists all keys' },
  )
}

/** Throws InvalidInput `invalid_policy`. */
export async function loadPolicies(root: string): Promise<BoardPolicies> {
  const problems: string[] = []
  const unwise: string[] = []
  const runtime = await runtimeOf(root, problems)
  const [retry, recovery, budget, acceptance, knowledge] = [
    await override(root, retryFile, retryShape, problems),
    await override(root, recoveryFile, recoveryShape, problems),
    await override(root, budgetFile, budgetShape, problems),
    await override(root, acceptanceFile, acceptanceShape, problems),
    await override(root, knowledgeFile, knowledgeShape, unwise),
  ]
  refuse(problems)
  const explicit = { retry: runtime.explicit.retryPolicy }
  const guardrails = { global: runtime.explicit.guardrails }
  return {
    calls: callPolicy(merged(merged(asRetryFile(defaultCallPolicy), explicit), retry)),
    recovery: withHuman(merged(shippedRecovery, recovery)),
    budget: merged(merged(shippedBudget, guardrails), budget),
    knowledge: merged(shippedKnowledge, knowledge),
    knowledgeError: unwise.length === 0 ? null : unwise.slice(0, problemsMax).join('; '),
    acceptance: merged(shippedAcceptance, acceptance),
    runtime,
  }
}
