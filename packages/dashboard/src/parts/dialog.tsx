/** A modal window, built on the browser's dialog: it traps the focus, closes with Escape, and restores the focus. */
import { useEffect, useRef, type ReactNode } from 'react'
import { Icon } from './glyph.js'
import { Toasts } from './toast.js'

interface DialogProps {
  readonly title: ReactNode
  readonly name: string
  readonly side?: boolean
  readonly isWide?: boolean
  readonly close: () => void
  readonly children: ReactNode
}

export function Dialog({ title, name, side = false, isWide = false, close, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const shown = dialog.current
    shown?.showModal()
    // Not the button that closes it, which comes first.
    shown?.querySelector<HTMLElement>(':is(input, select, textarea):required')?.focus()
    return () => shown?.close()
  }, [])
  const place = side
    ? 'mr-0 ml-auto h-dvh max-h-dvh w-full max-w-[560px] border-l'
    : `m-auto max-h-[85dvh] w-full rounded-lg border ${isWide ? 'max-w-3xl' : 'max-w-md'}`
  return (
    <dialog
      ref={dialog}
      aria-label={name}
      className={`${place} overflow-hidden border-line bg-panel text-ink shadow-2xl`}
      onClose={close}
      onClick={(event) => {
        if (event.target === event.currentTarget) close()
      }}
    >
      <div className="flex h-full max-h-[inherit] flex-col">
        <header className="flex items-start gap-3 border-b border-line px-4 py-3">
          <h2 className="min-w-0 flex-1 text-base font-semibold">{title}</h2>
          <button type="button" className="rounded p-1 text-ink-2 hover:bg-hover" aria-label="Close" onClick={close}>
            <Icon name="close" />
          </button>
        </header>
        <div className="min-h-0 flex-1 overflow-auto p-4" tabIndex={0} role="group" aria-label={`Content of ${name}`}>
          {children}
        </div>
      </div>
      {/* What is outside of a modal window cannot be reached. */}
      <Toasts />
    </dialog>
  )
}
