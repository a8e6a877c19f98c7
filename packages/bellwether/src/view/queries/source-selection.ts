/**
 * Selects the sources of a query (V6.9): the named one, the best one by a measure, or all. Pure.
 */
import { InvalidInput, Terminal } from '@bellwether/protocol'

export const measures = ['file_count', 'total_size', 'latest_mtime'] as const
export type Measure = (typeof measures)[number]

export type SourceSize = { readonly source_id: string; readonly ready: boolean } & Readonly<Record<Measure, number>>

/** The source with the largest value; ready sources first; among equals the lowest id, so that the result is stable. */
export function bestSource(sizes: readonly SourceSize[], measure: Measure): SourceSize | undefined {
  let found: SourceSize | undefined
  for (const one of sizes) {
    if (found === undefined || compare(one, found, measure) > 0) found = one
  }
  return found
}

function compare(one: SourceSize, other: SourceSize, measure: Measure): number {
  if (one.ready !== other.ready) return one.ready ? 1 : -1
  if (one[measure] !== other[measure]) return one[measure] - other[measure]
  return one.source_id < other.source_id ? 1 : -1
}

function parseMeasure(name: string): Measure {
  const measure = measures.find((known) => known === name)
  if (measure !== undefined) return measure
  throw new InvalidInput(`There is no measure ${JSON.stringify(name.slice(0, 80))}`, {
    code: 'unknown_measure',
    hint: `Use one of: ${measures.join(', ')}.`,
  })
}

/** The sources that a query addresses. */
export function selectSources<S extends { readonly id: string }>(
  sources: readonly S[],
  query: { readonly source?: string | undefined; readonly best?: string | undefined },
  sizeOf: (source: S) => SourceSize,
): readonly S[] {
  if (query.source !== undefined) {
    const named = sources.find(({ id }) => id === query.source)
    if (named === undefined) {
      throw new Terminal(`This view has no source ${JSON.stringify(query.source.slice(0, 80))}`, {
        code: 'unknown_source',
        hint: `Its sources are: ${sources.map(({ id }) => id).join(', ')}.`,
      })
    }
    return [named]
  }
  if (query.best === undefined) return sources
  const winner = bestSource(sources.map(sizeOf), parseMeasure(query.best))
  return sources.filter(({ id }) => id === winner?.source_id)
}
