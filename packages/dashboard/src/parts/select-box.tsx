/** The checkbox that selects a row. Shift selects everything between the last toggled row and this one. */
import type { Selection } from './selection.js'

export function SelectBox({
  id,
  name,
  selection,
}: {
  readonly id: string
  /** For screen readers. */
  readonly name: string
  readonly selection: Selection
}) {
  return (
    <input
      type="checkbox"
      className="size-4"
      aria-label={`Select ${name}`}
      checked={selection.ids.has(id)}
      onClick={(event) => selection.toggle(id, event.shiftKey)}
      // The click decides: a change event does not say whether Shift was pressed.
      onChange={() => undefined}
    />
  )
}
