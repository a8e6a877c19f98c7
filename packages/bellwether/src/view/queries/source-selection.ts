/**
 * Several sources side by side (V6.9): which of them a reader means, how they compare, and which is best by a measure.
 * Pure over what it is handed.
 */
import { InvalidInput, Terminal } from '@bellwether/protocol'

export const measures = ['file_count', 'total_size', 'latest_mtime'] as const
export type Measure = (typeof measures)[number]

export type Standing = { readonly source_id: string; readonly ready: boolean } & Readonly<Record<Measure, number>>

/** The one with the most; ready ones first; among equals the one that sorts first, so that the answer is always the same. */
export function best(standings: readonly Standing[], measure: Measure): Standing | undefined {
  let found: Standing | undefined
  for (const one of standings) {
    if (found === undefined || compare(one, found, measure) > 0) found = one
  }
  return found
}

function compare(one: Standing, other: Standing, measure: Measure): number {
  if (one.ready !== other.ready) return one.ready ? 1 : -1
  if (one[measure] !== other[measure]) return one[measure] - other[measure]
  return one.source_id < other.source_id ? 1 : -1
}

export function measureOf(word: string): Measure {
  const measure = measures.find((known) => known === word)
  if (measure !== undefined) return measure
  throw new InvalidInput(`there is no measure ${JSON.stringify(word.slice(0, 80))}`, {
    code: 'unknown_measure',
    hint: `one of: ${measures.join(', ')}`,
  })
}

/** The sources a question is about: the named one, the best one, or all of them. */
export function chosen<S extends { readonly id: string }>(
  sources: readonly S[],
  question: { readonly source?: string | undefined; readonly best?: string | undefined },
  standing: (source: S) => Standing,
): readonly S[] {
  if (question.source !== undefined) {
    const named = sources.find(({ id }) => id === question.source)
    if (named === undefined) {
      throw new Terminal(`this view has no source ${JSON.stringify(question.source.slice(0, 80))}`, {
        code: 'unknown_source',
        hint: `it has: ${sources.map(({ id }) => id).join(', ')}`,
      })
    }
    return [named]
  }
  if (question.best === undefined) return sources
  const winner = best(sources.map(standing), measureOf(question.best))
  return sources.filter(({ id }) => id === winner?.source_id)
}
