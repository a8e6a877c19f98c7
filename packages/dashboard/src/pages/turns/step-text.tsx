/** The prompt and the answer of a step. */
import type { Card, TurnDetail } from '../../api/types.js'
import { oneLine, plural, textOf } from '../../model/text.js'
import { stepCards, type SpanRow } from '../../model/waterfall.js'
import { UntrustedText } from '../../parts/untrusted-text.js'

// The newest cards of a prompt; the timeline has the others.
const shownMax = 50

export function StepText({ turn, row }: { readonly turn: TurnDetail; readonly row: SpanRow }) {
  const { prompt, answer } = stepCards(turn, row)
  return (
    <>
      <details className="rounded border border-line px-2 py-1">
        <summary>Prompt: {plural(prompt.length, 'card')}</summary>
        {turn.cards_truncated && <p className="label">Older cards are not shown.</p>}
        <Cards cards={prompt.slice(-shownMax)} />
      </details>
      <div>
        <p className="label">Answer</p>
        {answer.length === 0 ? <p className="text-ink-3">None is stored</p> : <Cards cards={answer} />}
      </div>
    </>
  )
}

function Cards({ cards }: { readonly cards: readonly Card[] }) {
  return (
    <ol className="divide-y divide-line">
      {cards.map((card) => (
        <li key={card.card_id} className="py-1">
          <span className="label">{oneLine(card.type, 60)}</span>
          <UntrustedText text={textOf(card.content)} />
        </li>
      ))}
    </ol>
  )
}
