/** Says what was done, for a few seconds, with a button that takes it back where that makes sense. One at a time. */
import { errorMessage } from '@bellwether/base'
import { useEffect, useState, useSyncExternalStore } from 'react'
import { clock } from '../ports/clock.js'
import { oneLine } from '../model/text.js'

interface Toast {
  readonly text: string
  readonly undo?: (() => Promise<unknown>) | undefined
}

// Enough to read a line and press a key.
const shownMs = 12_000

let current: Toast | undefined
const watchers = new Set<() => void>()

function set(next: Toast | undefined): void {
  current = next
  for (const watcher of watchers) watcher()
}

/** `undo` takes the change back; its failure is shown. */
export const toast = (text: string, undo?: () => Promise<unknown>): void => set({ text, undo })

export function Toasts() {
  const shown = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher)
      return () => void watchers.delete(watcher)
    },
    () => current,
  )
  const [isHeld, setHeld] = useState(false)
  useEffect(
    () => (shown === undefined || isHeld ? undefined : clock.after(shownMs, () => set(undefined))),
    [shown, isHeld],
  )
  const undo = () => {
    const takeBack = shown?.undo
    set(undefined)
    takeBack?.().then(
      () => toast('Undone'),
      (error: unknown) => toast(`Cannot undo: ${errorMessage(error)}`),
    )
  }
  return (
    // The region is always there: screen readers announce only what changes in it.
    <div
      role="status"
      className="pointer-events-none fixed inset-x-0 bottom-16 z-40 flex justify-center px-3 md:bottom-4"
      onPointerEnter={() => setHeld(true)}
      onPointerLeave={() => setHeld(false)}
      onFocus={() => setHeld(true)}
      onBlur={() => setHeld(false)}
    >
      {shown !== undefined && (
        <div className="panel pointer-events-auto flex items-center gap-3 px-3 py-2 shadow-2xl">
          <span>{oneLine(shown.text, 300)}</span>
          {shown.undo !== undefined && (
            <button type="button" className="button" aria-keyshortcuts="u" title="Undo (u)" onClick={undo}>
              Undo
            </button>
          )}
          <button type="button" className="link text-sm" onClick={() => set(undefined)}>
            Dismiss
          </button>
        </div>
      )}
    </div>
  )
}
