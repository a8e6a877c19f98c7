/** Pages for an unknown URL and for a page that failed to render. Both link back. */
import { asError } from '@bellwether/base'
import type { ErrorComponentProps } from '@tanstack/react-router'
import { Empty, Failure } from '../parts/query-state.js'

export function NotFound() {
  return (
    <main className="flex-1">
      <h1 className="sr-only">Page not found</h1>
      <Empty title="There is no page at this URL">
        <a className="link" href="/">
          Go to the fleet
        </a>
      </Empty>
    </main>
  )
}

export function PageFailed({ error, reset }: ErrorComponentProps) {
  return (
    <main className="flex-1">
      <h1 className="sr-only">This page failed to load</h1>
      <Failure error={asError(error)} retry={reset} />
    </main>
  )
}
