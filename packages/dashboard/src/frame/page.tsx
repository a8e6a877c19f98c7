/** The frame of every page: title, tools and connection state, always at the same place. */
import type { ReactNode } from 'react'
import { Connection } from './connection.js'

interface PageProps {
  readonly title: ReactNode
  readonly tools?: ReactNode
  /** Whether the page scrolls; false if it contains a list that does. */
  readonly scrolls?: boolean
  readonly children: ReactNode
}

export function Page({ title, tools, scrolls = false, children }: PageProps) {
  return (
    <main id="main" className="flex min-h-0 min-w-0 flex-1 flex-col" tabIndex={-1}>
      <header className="flex min-h-12 flex-wrap items-center gap-x-4 gap-y-2 border-b border-line bg-panel px-4 py-2">
        <h1 className="text-lg font-semibold">{title}</h1>
        <div className="order-last flex w-full min-w-0 flex-wrap items-center gap-2 empty:hidden md:order-none md:w-auto md:flex-1">
          {tools}
        </div>
        <div className="ml-auto">
          <Connection />
        </div>
      </header>
      {scrolls ? (
        <div className="min-h-0 flex-1 overflow-auto" tabIndex={0} role="group" aria-label="Content of the page">
          {children}
        </div>
      ) : (
        <div className="flex min-h-0 flex-1 flex-col">{children}</div>
      )}
    </main>
  )
}

export function Section({
  title,
  aside,
  children,
}: {
  readonly title: string
  readonly aside?: ReactNode
  readonly children: ReactNode
}) {
  return (
    <section className="panel" aria-label={title}>
      <header className="flex flex-wrap items-center gap-x-3 border-b border-line px-3 py-1.5">
        <h2 className="flex-1 font-semibold whitespace-nowrap">{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  )
}
