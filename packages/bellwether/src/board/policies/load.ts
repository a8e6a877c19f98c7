/**
 * Loads the board's policies: the defaults, overridden key by key by the files of a task root. The result is complete. All
 * problems are reported at once, each with its file, its key and the nearest valid key. A problem in the knowledge policy
 * does not fail: it is returned as `knowledgeError`.
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, isObject, type Clock, type JsonObject } from '@bellwether/base'
import { InvalidInput, plural } from '@bellwether/protocol'
import { parse, type Shape } from '../../settings/shape.js'
import { acceptanceFile, type AcceptancePolicy } from './acceptance-policy.js'
import { budgetFile } from './budget.js'
import { parseObject, readInside } from './inside.js'
import { knowledgeFile } from './knowledge.js'
import { human, recoveryFile, type RecoveryPolicy } from './recovery.js'
import { isReferenceAcceptance, referenceAcceptanceShape } from './reference-acceptance.js'
import { callPolicy, retryFile } from './retry.js'
import { asRuntimePolicy, runtimeFile, type RuntimePolicy } from './runtime.js'
import { workspaceFile } from './workspace.js'
import { problemsOf, reservedKeys, type PolicyFile } from './shape.js'

const files = [retryFile, recoveryFile, budgetFile, acceptanceFile, workspaceFile, knowledgeFile]

/** The paths of all policy files of a task root. */
export const policyFiles: readonly string[] = [...files.map(({ path }) => path), runtimeFile]

export type BoardPolicies = Awaited<ReturnType<typeof loadPolicies>>

/** Merges objects key by key; every other value replaces the base; undefined changes nothing. */
export function merged<T>(base: T, over: unknown): T {
  if (!isObject(base) || !isObject(over)) return over === undefined ? base : (over as T)
  const result = new Map(Object.entries(base))
  for (const [key, value] of Object.entries(over)) {
    if (value !== undefined) result.set(key, result.has(key) ? merged(result.get(key), value) : value)
  }
  return Object.fromEntries(result) as T
}

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
  recovery: Partial<RecoveryPolicy>,
  checks: AcceptancePolicy['checks'],
): readonly (readonly [path: string, text: string])[] {
  const more = 'docs/guides/policies.md explains every key. A key that you remove keeps its default.'
  // The role of the reference that is built in, too, means nothing in a new project.
  const roles = { [human]: acceptanceFile.defaults.roles[human] }
  const own: Readonly<Record<string, object>> = {
    [recoveryFile.path]: recovery,
    [acceptanceFile.path]: { roles, checks },
  }
  return files.map(({ path, about, defaults }) => {
    const policy = { ...defaults, ...own[path] }
    return [path, `${JSON.stringify({ [commentKey]: [about, more], ...policy }, undefined, 2)}\n`]
  })
}

/** Reads one policy file. Undefined: there is none, or it has problems, which are added to the list. */
async function override<P>(root: string, { path, shape }: PolicyFile<P>, problems: string[]): Promise<unknown> {
  const read = await readInside(root, path)
  if (read.found === 'absent') return undefined
  if (read.found !== 'text') {
    problems.push(`${path}: cannot read it: ${read.why}`)
    return undefined
  }
  const parsed = parseObject(read.text)
  if ('why' in parsed) {
    problems.push(`${path}: ${parsed.why}`)
    return undefined
  }
  const value = withoutComments(parsed.value)
  const reserved = reservedKeys(path, value)
  if (reserved.length > 0) {
    problems.push(...reserved)
    return undefined
  }
  const isReference = path === acceptanceFile.path && isReferenceAcceptance(value)
  const used: Shape<unknown> = isReference ? referenceAcceptanceShape : shape
  const checked = parse(used, value)
  if ('value' in checked) return checked.value
  problems.push(...problemsOf(path, used, checked.issues))
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
    `Invalid policy files, ${plural(problems.length, 'problem')}:\n${[...problems.slice(0, problemsMax), ...more].join('\n')}`,
    { code: 'invalid_policy', hint: 'Correct every key named above; docs/guides/policies.md lists all keys.' },
  )
}

/** Throws InvalidInput `invalid_policy`. */
export async function loadPolicies(root: string) {
  const problems: string[] = []
  const knowledgeProblems: string[] = []
  const runtime = await runtimeOf(root, problems)
  const load = async <P>(file: PolicyFile<P>, defaults = file.defaults): Promise<P> =>
    merged(defaults, await override(root, file, file === knowledgeFile ? knowledgeProblems : problems))
  const { retryPolicy, guardrails } = runtime.explicit
  const policies = {
    calls: callPolicy(await load(retryFile, merged(retryFile.defaults, { retry: retryPolicy }))),
    recovery: withHuman(await load(recoveryFile)),
    budget: await load(budgetFile, merged(budgetFile.defaults, { global: guardrails })),
    acceptance: await load(acceptanceFile),
    workspace: await load(workspaceFile),
    knowledge: await load(knowledgeFile),
    runtime,
  }
  rejectProblems(problems)
  return {
    ...policies,
    /** Why config/knowledge-feedback.json could not be used; dispatch then continues without hints. */
    knowledgeError: knowledgeProblems.length === 0 ? null : knowledgeProblems.slice(0, problemsMax).join('; '),
  }
}

// A file that was changed more recently may change again within the same tick of its file system's clock.
const settledMs = 10_000

/** Loads the policies again only if a file changed since: the same object means the same policies. */
export function openPolicies(root: string, clock: Pick<Clock, 'wallMs'>): () => Promise<BoardPolicies> {
  let last: { readonly marks: string; readonly policies: BoardPolicies } | undefined
  return async () => {
    const before = await marksOf(root)
    if (last?.marks === before.text) return last.policies
    const policies = await loadPolicies(root)
    const isSettled = before.changedAtMs < clock.wallMs() - settledMs
    last = isSettled ? { marks: before.text, policies } : undefined
    return policies
  }
}

/** What changes with each change of a policy file, and when the last change was. */
async function marksOf(root: string): Promise<{ readonly text: string; readonly changedAtMs: number }> {
  const found = await Promise.all(policyFiles.map((path) => stat(join(root, path)).catch(unreadable)))
  const text = found.map((one) =>
    typeof one === 'string' ? one : [one.dev, one.ino, one.size, one.mtimeMs, one.ctimeMs].join(),
  )
  return {
    text: text.join(' '),
    changedAtMs: Math.max(0, ...found.map((one) => (typeof one === 'string' ? 0 : one.ctimeMs))),
  }
}

/** Differs from the mark of an absent file, so that the policies are loaded again, and loading reports the error. */
const unreadable = (error: unknown) => (hasCode(error, 'ENOENT', 'ENOTDIR') ? '' : String(error))
