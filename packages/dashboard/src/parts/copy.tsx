/** A shortened id with a button that copies the full one. */
import { useState } from 'react'
import { shortId, visible } from '../model/text.js'
import { clock } from '../ports/clock.js'

export function CopyId({
  id,
  what,
  full = false,
}: {
  readonly id: string
  readonly what: string
  readonly full?: boolean
}) {
  const [isCopied, setCopied] = useState(false)
  const copy = async () => {
    await navigator.clipboard.writeText(id)
    setCopied(true)
    clock.after(1_500, () => setCopied(false))
  }
  return (
    <button
      type="button"
      className="rounded font-mono text-xs text-ink-2 hover:text-ink hover:underline"
      title={`Copy ${what}: ${visible(id)}`}
      onClick={() => void copy().catch(() => setCopied(false))}
    >
      {isCopied ? 'copied' : full ? visible(id) : shortId(visible(id))}
      <span className="sr-only"> (copy {what})</span>
    </button>
  )
}
