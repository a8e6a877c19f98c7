/**
 * Reads the knowledge sources and records the lessons of failed runs. Only local files inside the root are read, all of them
 * within one timeout; only state/knowledge-feedback.json is written, atomically. Nothing throws: a dispatch must not fail
 * because of missing hints. knowledge.ts formats the hints.
 */
import { join } from 'node:path'
import { type Clock, errorMessage } from '@bellwether/base'
import type { Disk } from '../../ports/disk/disk.js'
import type { Ids } from '../../ports/ids.js'
import { isoSeconds } from './entries.js'
import { folderInside, parseObject, readInside, replaceFile } from './inside.js'
import type { Backfill, Hint, KnowledgePolicy, LessonSource } from './knowledge.js'
import { backfilled, feedbackFile, hintsOf, hintsSection, tagsOf } from './knowledge.js'

export interface Knowledge {
  /** No source gave hints, because of a problem. */
  readonly degraded: boolean
  /** The problems, also of sources before the one that gave hints. */
  readonly degradeReason: string | null
  readonly knowledgeTags: readonly string[]
  readonly hints: readonly Hint[]
  /** The section for the prompt; empty without hints. */
  readonly section: string
  readonly source: string | null
}

const noKnowledge = (degradeReason: string | null): Knowledge => ({
  degraded: degradeReason !== null,
  degradeReason,
  knowledgeTags: [],
  hints: [],
  section: '',
  source: null,
})

type Source = { readonly hints: readonly Hint[] } | { readonly why: string; readonly again: boolean } | 'absent'

async function readSource(root: string, path: string, maxItems: number): Promise<Source> {
  const read = await readInside(root, path)
  if (read.found === 'absent') return 'absent'
  if (read.found !== 'text') {
    const outside = read.found === 'outside'
    return { why: `cannot ${outside ? 'use' : 'read'} ${path}: ${read.why}`, again: !outside }
  }
  const parsed = parseObject(read.text)
  // Another program may be writing the file in place.
  if ('why' in parsed) return { why: `cannot use ${path}: ${parsed.why}`, again: true }
  return { hints: hintsOf(parsed.value, maxItems) }
}

// Between two tries of one source: long enough for a writer to finish, short compared to the timeout.
const pauseMs = 10

const reasonOf = (failures: readonly string[]): string | null => (failures.length === 0 ? null : failures.join('; '))

async function search(
  root: string,
  policy: KnowledgePolicy,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Knowledge> {
  const failures: string[] = []
  for (const path of policy.sourceCandidates) {
    for (let tries = 0; tries <= policy.maxRetries && !signal.aborted; tries += 1) {
      const found = await readSource(root, path, policy.maxItems)
      if (found === 'absent') break
      if ('hints' in found) {
        if (found.hints.length === 0) break
        const { hints } = found
        return {
          degraded: false,
          degradeReason: reasonOf(failures),
          knowledgeTags: tagsOf(hints),
          hints,
          section: hintsSection(hints),
          source: path,
        }
      }
      const last = !found.again || tries === policy.maxRetries
      if (last) failures.push(found.why)
      if (last) break
      await clock.sleep(pauseMs, signal)
    }
  }
  return noKnowledge(reasonOf(failures))
}

/** `policyError`: why the policy file could not be used. */
export async function fetchKnowledge(
  root: string,
  policy: KnowledgePolicy,
  clock: Clock,
  policyError: string | null = null,
): Promise<Knowledge> {
  if (policyError !== null) return noKnowledge(policyError)
  if (!policy.enabled) return noKnowledge(null)
  if (!policy.readOnly) return noKnowledge('"readOnly" must be true in the policy: sources are only read')
  const over = new AbortController()
  const late = clock
    .sleep(policy.timeoutMs, over.signal)
    .then(() => noKnowledge(`reading the sources took longer than ${policy.timeoutMs} ms`))
  try {
    return await Promise.race([search(root, policy, { clock, signal: over.signal }), late])
  } catch (error) {
    return noKnowledge(`cannot read the sources: ${errorMessage(error)}`)
  } finally {
    over.abort()
  }
}

const notWritten = (reason: string): Backfill => ({ written: false, mistakes: 0, patterns: 0, tags: [], reason })

/** Best effort: a failure is only reported in the result. */
export async function backfillKnowledge(
  root: string,
  policy: KnowledgePolicy,
  lesson: LessonSource,
  { disk, clock, ids }: { readonly disk: Disk; readonly clock: Clock; readonly ids: Ids },
): Promise<Backfill> {
  if (!policy.enabled) return notWritten('knowledge feedback is disabled')
  try {
    const read = await readInside(root, feedbackFile)
    if (read.found === 'outside' || read.found === 'unreadable') return notWritten(`${feedbackFile}: ${read.why}`)
    const parsed = read.found === 'text' ? parseObject(read.text) : { value: {} }
    // A damaged file is not overwritten: a person may want to repair it.
    if ('why' in parsed) return notWritten(`${feedbackFile}: ${parsed.why}`)
    const { contents, backfill } = backfilled(parsed.value, lesson, isoSeconds(clock.wallMs() / 1_000))
    const [folder, name] = feedbackFile.split('/') as [string, string]
    const path = join(await folderInside(disk, root, folder), name)
    await replaceFile(disk, path, `${path}.${ids.next()}.draft`, `${JSON.stringify(contents, undefined, 2)}\n`)
    return backfill
  } catch (error) {
    return notWritten(errorMessage(error))
  }
}
