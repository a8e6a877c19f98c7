/** How a query looks while it loads, when it failed, and when its result is empty. */
import type { ReactNode } from 'react'
import { Problem } from '../api/client.js'
import { oneLine } from '../model/text.js'
import { Glyph, Icon } from './glyph.js'

interface QueryResult<T> {
  readonly data: T | undefined
  readonly error: Error | null
  readonly isPending: boolean
  readonly refetch: () => Promise<unknown>
}

interface QueryStateProps<T> {
  readonly query: QueryResult<T>
  readonly skeleton?: ReactNode
  readonly empty?: ReactNode
  readonly isEmpty?: (data: T) => boolean
  /** The caller already draws a frame. */
  readonly isFramed?: boolean
  readonly children: (data: T) => ReactNode
}

/** Data stays on the page during a refetch, also if that fails; the connection state shows that it may be old. */
export function QueryState<T>(props: QueryStateProps<T>) {
  const { query, empty, isEmpty, isFramed = false, children } = props
  const skeleton = props.skeleton ?? (isFramed ? <Rows count={4} /> : <FramedRows />)
  if (query.data !== undefined) return isEmpty?.(query.data) === true ? <>{empty}</> : <>{children(query.data)}</>
  if (query.error !== null)
    return <Failure error={query.error} retry={() => void query.refetch()} isFramed={isFramed} />
  return (
    <div role="status" aria-label="Loading">
      {skeleton}
    </div>
  )
}

interface FailureProps {
  readonly error: Error
  readonly retry?: () => void
  readonly isFramed?: boolean
}

export function Failure({ error, retry, isFramed = false }: FailureProps) {
  const hint = error instanceof Problem ? error.hint : undefined
  return (
    <div role="alert" className={`flex items-start gap-3 p-4 ${isFramed ? '' : 'panel m-3'}`}>
      <span className="mt-0.5 text-bad">
        <Glyph shape="cross" size={16} />
      </span>
      <div className="min-w-0 flex-1">
        <p className="font-medium">{oneLine(error.message, 300)}</p>
        {hint !== undefined && <p className="text-ink-2">{withCode(oneLine(hint, 300))}</p>}
      </div>
      {retry !== undefined && (
        <button type="button" className="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** Commands stand between backticks. */
const withCode = (text: string): ReactNode[] =>
  text.split('`').map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))

export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="mx-auto max-w-lg p-10 text-center">
      <span className="mb-2 inline-block text-line-strong">
        <Icon name="bell" size={28} />
      </span>
      <p className="text-lg font-semibold">{title}</p>
      <div className="mt-1 text-ink-2">{children}</div>
    </div>
  )
}

const widths = ['w-3/5', 'w-4/5', 'w-2/3', 'w-3/4', 'w-1/2', 'w-4/5']

const FramedRows = () => (
  <div className="panel m-3">
    <Rows count={12} />
  </div>
)

function Rows({ count }: { readonly count: number }) {
  return (
    <div className="space-y-3 p-4">
      {Array.from({ length: count }, (_, at) => (
        <div key={at} className={`skeleton h-4 ${widths[at % widths.length]}`} />
      ))}
    </div>
  )
}
