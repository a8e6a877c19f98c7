/** What the bars and marks of a waterfall look like, and the legend that explains it. */
import type { Span } from '../../api/types.js'
import { appearanceOf } from '../../model/status.js'
import { kindWords, type SpanRow } from '../../model/waterfall.js'

export interface Mark {
  readonly atMs: number
  readonly text: string
  readonly tone: 'wait' | 'person'
}

/** What works is solid, what waits is hatched. */
const fills: Readonly<Record<Span['kind'], string>> = {
  queue: 'bg-rest hatched',
  lease: 'bg-start hatched',
  run: 'bg-rest',
  step: 'bg-start',
  tool: 'bg-go',
  person: 'bg-person hatched',
  account: 'bg-wait hatched',
  child: 'bg-(--series-6)',
}
const kindsInOrder = Object.keys(fills) as Span['kind'][]

const isBad = ({ status, error }: Span) => error !== null || (status !== null && appearanceOf(status).tone === 'bad')

export const fillOf = (span: Span) =>
  isBad(span) ? `bg-bad ${fills[span.kind].includes('hatched') ? 'hatched' : ''}` : fills[span.kind]

/** What the colours and patterns of the bars mean, of those that the chart has. */
export function Legend({ rows, marks }: { readonly rows: readonly SpanRow[]; readonly marks: readonly Mark[] }) {
  const spans = rows.map(({ span }) => span)
  const bar = (fill: string) => <span className={`relative h-2.5 w-4 overflow-hidden rounded-xs ${fill}`} />
  const diamond = (fill: string) => <span className={`size-2 rotate-45 ${fill}`} />
  const entries = [
    ...kindsInOrder
      .filter((kind) => spans.some((span) => span.kind === kind && !isBad(span)))
      .map((kind) => [kindWords[kind], bar(fills[kind])] as const),
    ...(spans.some(isBad) ? [['Failed', bar('bg-bad')] as const] : []),
    ...(spans.some((span) => span.first_token_ms !== null)
      ? [
          [
            'Until the first token',
            <span className="h-2.5 w-4 rounded-xs bg-start">
              <span className="block size-full rounded-xs bg-panel/55" />
            </span>,
          ] as const,
        ]
      : []),
    ...(rows.some(({ isOpen }) => isOpen) ? [['Not ended', bar('bg-rest opacity-60')] as const] : []),
    ...(marks.some(({ tone }) => tone === 'wait') ? [['Watchdog', diamond('bg-wait')] as const] : []),
    ...(marks.some(({ tone }) => tone === 'person') ? [['Message', diamond('bg-person')] as const] : []),
  ]
  return (
    <ul
      aria-label="Legend"
      className="flex min-h-7 flex-wrap items-center gap-x-4 gap-y-1 border-b border-line px-3 py-1 text-xs text-ink-2"
    >
      {entries.map(([name, sign]) => (
        <li key={name} className="flex items-center gap-1.5">
          {sign}
          {name}
        </li>
      ))}
      <li className="text-ink-3">Hatched: waits</li>
    </ul>
  )
}
