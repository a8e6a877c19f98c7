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
  let held = ''

  function* out(kind: 'text' | 'thought', text: string): Iterable<ModelPart> {
    if (text !== '') yield { kind, text }
  }

  return {
    *take(text) {
      if (place === 'after') return yield* out('text', text)
      held += text
      if (place === 'before') {
        const begun = held.trimStart()
        if (opening.startsWith(begun)) return
        place = begun.startsWith(opening) ? 'inside' : 'after'
        if (place === 'inside') held = begun.slice(opening.length)
        else {
          yield* out('text', held)
          held = ''
          return
        }
      }
      const end = held.indexOf(closing)
      if (end >= 0) {
        const after = held.slice(end + closing.length).trimStart()
        yield* out('thought', held.slice(0, end))
        yield* out('text', after)
        place = 'after'
        held = ''
        return
      }
      // The end may be the beginning of the closing tag.
      const safe = Math.max(0, held.length - closing.length + 1)
      yield* out('thought', held.slice(0, safe))
      held = held.slice(safe)
    },
    *rest() {
      yield* out(place === 'inside' ? 'thought' : 'text', held)
      held = ''
    },
  }
}
