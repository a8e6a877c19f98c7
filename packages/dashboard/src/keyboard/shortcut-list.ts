/** The list that j and k move in: the one that was shown last. The shell handles the keys themselves. */
import { useEffect, useRef, useState } from 'react'

export interface ListKeys {
  move(by: number): void
  open(): void
  /** `isRange`: everything from the row that was selected last. */
  select(isRange: boolean): void
  clear(): void
}

const lists: ListKeys[] = []

export const currentList = (): ListKeys | undefined => lists.at(-1)

interface Options {
  readonly count: number
  /** Scrolls a row into view and focuses it. */
  readonly show: (at: number) => void
  readonly open: (at: number) => void
  /** Selects a row, or removes it from the selection. */
  readonly select?: ((at: number, isRange: boolean) => void) | undefined
  readonly clear?: (() => void) | undefined
}

/** The selected row, or -1. */
export function useListKeys(options: Options): number {
  const [at, setAt] = useState(-1)
  const latest = useRef({ options, at })
  latest.current = { options, at }
  useEffect(() => {
    const list: ListKeys = {
      move(by) {
        const { options: now, at: before } = latest.current
        if (now.count === 0) return
        const next = Math.max(0, Math.min(now.count - 1, before + by))
        setAt(next)
        now.show(next)
      },
      open() {
        const { options: now, at: chosen } = latest.current
        if (chosen >= 0 && chosen < now.count) now.open(chosen)
      },
      select(isRange) {
        const { options: now, at: chosen } = latest.current
        if (chosen < 0) list.move(1)
        if (now.count > 0) now.select?.(Math.max(0, Math.min(chosen, now.count - 1)), isRange)
      },
      clear: () => latest.current.options.clear?.(),
    }
    lists.push(list)
    return () => void lists.splice(lists.indexOf(list), 1)
  }, [])
  return Math.min(at, options.count - 1)
}
