/** An address that leads nowhere, and a page that broke: both say so, and lead back. */
import type { ErrorComponentProps } from '@tanstack/react-router'
import { Empty, Failure } from '../parts/query-state.js'

export function NotFound() {
  return (
    <main className="flex-1">
      <h1 className="sr-only">Nothing here</h1>
      <Empty title="There is nothing at this address.">
        <a className="link" href="/">
          To the fleet
        </a>
      </Empty>
    </main>
  )
}

export function PageFailed({ error, reset }: ErrorComponentProps) {
  return (
    <main className="flex-1">
      <h1 className="sr-only">This page failed</h1>
      <Failure error={error instanceof Error ? error : new Error(String(error))} retry={reset} />
    </main>
  )
}
