/** Which rows of a list are selected: some, a range, or all that match the filter, also those that are not loaded. */
import { useState } from 'react'

export interface Selection {
  /** The selected rows among the loaded ones. */
  readonly ids: ReadonlySet<string>
  /** All that match the filter are selected. */
  readonly isAll: boolean
  /** `isRange`: everything between the last toggled row and this one is selected too. */
  readonly toggle: (id: string, isRange: boolean) => void
  readonly all: () => void
  readonly clear: () => void
}

interface State {
  readonly name: string
  readonly ids: ReadonlySet<string>
  readonly isAll: boolean
  readonly anchor: string | null
}

const nothing: Omit<State, 'name'> = { ids: new Set(), isAll: false, anchor: null }

/** `name`: what the list shows. A list that shows something else has no selection. */
export function useSelection(name: string, loaded: readonly string[]): Selection {
  const [state, setState] = useState<State>({ name, ...nothing })
  const { isAll, anchor, ids } = state.name === name ? state : nothing
  const selected = isAll ? new Set(loaded) : ids
  return {
    ids: selected,
    isAll,
    toggle(id, isRange) {
      const next = new Set(selected)
      if (isRange && anchor !== null) for (const one of between(loaded, anchor, id)) next.add(one)
      else if (!next.delete(id)) next.add(id)
      setState({ name, ids: next, isAll: false, anchor: id })
    },
    all: () => setState({ name, ids: new Set(), isAll: true, anchor: null }),
    clear: () => setState({ name, ...nothing }),
  }
}

/** The items from one to the other, both included, in either direction. */
function between(items: readonly string[], one: string, other: string): readonly string[] {
  const [from, to] = [items.indexOf(one), items.indexOf(other)].toSorted((a, b) => a - b) as [number, number]
  return from === -1 ? [other] : items.slice(from, to + 1)
}
