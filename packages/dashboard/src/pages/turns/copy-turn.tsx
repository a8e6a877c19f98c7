/** Copies a turn as JSON, as a curl command, or as Markdown. */
import { useState } from 'react'
import { urlOf } from '../../api/client.js'
import type { TurnDetail } from '../../api/types.js'
import { curlOf, markdownOf } from '../../model/turn-copy.js'
import { clock } from '../../ports/clock.js'

const shownMs = 1_500

export function CopyTurn({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  const [shown, setShown] = useState<{ readonly name: string; readonly text: string } | null>(null)
  const params = { project, turn: turn.agent_turn_id }
  const forms = {
    JSON: () => JSON.stringify(turn, null, 2),
    curl: () => curlOf(new URL(urlOf('GET /projects/:project/turns/:turn', params), location.origin).href),
    Markdown: () => markdownOf(turn),
  } as const
  const copy = async (name: keyof typeof forms) => {
    const text = await navigator.clipboard.writeText(forms[name]()).then(
      () => 'copied',
      () => 'refused by the browser',
    )
    setShown({ name, text })
    clock.after(shownMs, () => setShown(null))
  }
  return (
    <span className="flex items-center gap-1" role="group" aria-label="Copy this turn">
      <span className="label">Copy as</span>
      {(Object.keys(forms) as (keyof typeof forms)[]).map((name) => (
        <button key={name} type="button" className="button" onClick={() => void copy(name)}>
          {shown?.name === name ? shown.text : name}
        </button>
      ))}
    </span>
  )
}
