/**
 * Open models write their thoughts into the text, between <think> tags at its beginning. Taken apart here as it streams: thoughts are
 * no answer. Pure, and nothing is held back longer than a tag is long.
 */
import type { ModelPart } from './model.js'

const opening = '<think>'
const closing = '</think>'

export interface ThinkTagSplitter {
  take(text: string): Iterable<ModelPart>
  /** What was held back, when no more text follows. */
  rest(): Iterable<ModelPart>
}

export function splitThinkTags(): ThinkTagSplitter {
  let place: 'before' | 'inside' | 'after' = 'before'
  let pending = ''

  function* out(kind: 'text' | 'thought', text: string): Iterable<ModelPart> {
    if (text !== '') yield { kind, text }
  }

  return {
    *take(text) {
      if (place === 'after') return yield* out('text', text)
      pending += text
      if (place === 'before') {
        const begun = pending.trimStart()
        if (opening.startsWith(begun)) return
        place = begun.startsWith(opening) ? 'inside' : 'after'
        if (place === 'inside') pending = begun.slice(opening.length)
        else {
          yield* out('text', pending)
          pending = ''
          return
        }
      }
      const end = pending.indexOf(closing)
      if (end >= 0) {
        const after = pending.slice(end + closing.length).trimStart()
        yield* out('thought', pending.slice(0, end))
        yield* out('text', after)
        place = 'after'
        pending = ''
        return
      }
      // The end may be the beginning of the closing tag.
      const safe = Math.max(0, pending.length - closing.length + 1)
      yield* out('thought', pending.slice(0, safe))
      pending = pending.slice(safe)
    },
    *rest() {
      yield* out(place === 'inside' ? 'thought' : 'text', pending)
      pending = ''
    },
  }
}
