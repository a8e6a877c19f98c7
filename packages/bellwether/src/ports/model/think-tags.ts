/**
 * Separates the reasoning that open models write between <think> tags at the start of their text from the answer, while it streams.
 * Pure; it delays text by no more than the length of a tag.
 */
import type { ModelPart } from './model.js'

const opening = '<think>'
const closing = '</think>'

export interface ThinkTagSplitter {
  take(text: string): Iterable<ModelPart>
  /** The delayed text, at the end of the stream. */
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
      // The last characters may be the start of the closing tag.
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
