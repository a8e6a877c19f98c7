/**
 * Reads the sources of knowledge and writes back what a failed run taught. Always: only local files inside the root are read,
 * all of them together within the policy's time; only state/knowledge-feedback.json is written, whole or not at all; nothing
 * throws, because a dispatch must never fail for want of advice. What hints look like is left to knowledge.ts.
 */
import { join } from 'node:path'
import { type Clock, errorMessage } from '@bellwether/base'
import type { Disk } from '../../ports/disk/disk.js'
import type { Ids } from '../../ports/ids.js'
import { isoSeconds } from './entries.js'
import { folderInside, parseObject, readInside, replaceWhole } from './inside.js'
import type { Backfill, Hint, KnowledgePolicy, LessonSource } from './knowledge.js'
import { backfilled, feedbackFile, hintsOf, hintsSection, tagsOf } from './knowledge.js'

export interface Knowledge {
  readonly degraded: boolean
  readonly degradeReason: string | null
  readonly knowledgeTags: readonly string[]
  readonly hints: readonly Hint[]
  /** For the prompt; empty without hints. */
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
    return { why: `${path} ${outside ? 'is refused' : 'cannot be read'}: ${read.why}`, again: !outside }
  }
  const parsed = parseObject(read.text)
  // It may be in the middle of being written by a program that does not replace files whole.
  if ('why' in parsed) return { why: `${path} is no source: ${parsed.why}`, again: true }
  return { hints: hintsOf(parsed.value, maxItems) }
}

// Between two tries of one source: long enough for a writer to finish, short beside the whole time.
const pauseMs = 10

async function search(
  root: string,
  policy: KnowledgePolicy,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Knowledge> {
  const troubles: string[] = []
  for (const path of policy.sourceCandidates) {
    for (let attempt = 0; attempt <= policy.maxRetries && !signal.aborted; attempt += 1) {
      const found = await readSource(root, path, policy.maxItems)
      if (found === 'absent') break
      if ('hints' in found) {
        if (found.hints.length === 0) break
        const { hints } = found
        // A source before this one failed: the hints count, and so does the trouble.
        const degradeReason = troubles.length === 0 ? null : troubles.join('; ')
        return {
          degraded: degradeReason !== null,
          degradeReason,
          knowledgeTags: tagsOf(hints),
          hints,
          section: hintsSection(hints),
          source: path,
        }
      }
      const last = !found.again || attempt === policy.maxRetries
      if (last) troubles.push(found.why)
      if (last) break
      await clock.sleep(pauseMs, signal)
    }
  }
  return noKnowledge(troubles.length === 0 ? null : troubles.join('; '))
}

/** `trouble`: why the policy's own file could not be used, if so. */
export async function fetchKnowledge(
  root: string,
  policy: KnowledgePolicy,
  clock: Clock,
  trouble: string | null = null,
): Promise<Knowledge> {
  if (trouble !== null) return noKnowledge(trouble)
  if (!policy.enabled) return noKnowledge(null)
  if (!policy.readOnly) return noKnowledge('the policy must say readOnly: sources are only ever read')
  const over = new AbortController()
  const late = clock
    .sleep(policy.timeoutMs, over.signal)
    .then(() => noKnowledge(`the sources took longer than ${policy.timeoutMs} ms`))
  try {
    return await Promise.race([search(root, policy, { clock, signal: over.signal }), late])
  } catch (error) {
    return noKnowledge(`the sources cannot be read: ${errorMessage(error)}`)
  } finally {
    over.abort()
  }
}

export interface BackfillPorts {
  readonly disk: Disk
  readonly clock: Clock
  readonly ids: Ids
}

const notWritten = (reason: string): Backfill => ({ written: false, mistakes: 0, patterns: 0, tags: [], reason })

/** Best effort: what could not be written is told in the answer and nowhere else. */
export async function backfillKnowledge(
  root: string,
  policy: KnowledgePolicy,
  lesson: LessonSource,
  { disk, clock, ids }: BackfillPorts,
): Promise<Backfill> {
  if (!policy.enabled) return notWritten('knowledge feedback is not enabled')
  try {
    const read = await readInside(root, feedbackFile)
    if (read.found === 'outside' || read.found === 'unreadable') return notWritten(`${feedbackFile}: ${read.why}`)
    const parsed = read.found === 'text' ? parseObject(read.text) : { value: {} }
    // A file that somebody broke is left as it is: it may hold what a person wrote and wants to mend.
    if ('why' in parsed) return notWritten(`${feedbackFile}: ${parsed.why}`)
    const { contents, backfill } = backfilled(parsed.value, lesson, isoSeconds(clock.wallMs() / 1_000))
    const [folder, name] = feedbackFile.split('/') as [string, string]
    const path = join(await folderInside(disk, root, folder), name)
    await replaceWhole(disk, path, `${path}.${ids.next()}.draft`, `${JSON.stringify(contents, undefined, 2)}\n`)
    return backfill
  } catch (error) {
    return notWritten(errorMessage(error))
  }
}
