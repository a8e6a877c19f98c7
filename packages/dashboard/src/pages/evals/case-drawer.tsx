/** One case beside its run: the input, and for each variant the checks, the output and how it differs from the first variant. */
import { dollars } from '@bellwether/protocol/spending'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { evalCaseQuery } from '../../api/eval-queries.js'
import type { EvalCaseDetail } from '../../api/types.js'
import { oneLine, visible } from '../../model/text.js'
import { Dialog } from '../../parts/dialog.js'
import { Glyph } from '../../parts/glyph.js'
import { QueryState } from '../../parts/query-state.js'
import { Verdict } from './numbers.js'
import { outputDiff } from './output-diff.js'

interface CaseDrawerProps {
  readonly project: string
  readonly run: string
  readonly number: number
  readonly close: () => void
}

type Result = EvalCaseDetail['results'][number]
const inputShown = 4_000
const outputShown = 20_000

export function CaseDrawer({ project, run, number, close }: CaseDrawerProps) {
  const query = useQuery(evalCaseQuery(project, run, number))
  return (
    <Dialog title={<bdi>{oneLine(query.data?.case ?? '', 100)}</bdi>} name="Case" side close={close}>
      <QueryState query={query} isFramed>
        {({ instruction, turn, results }) => (
          <div className="space-y-4">
            <section aria-label="Input">
              <h3 className="font-semibold">Input</h3>
              <pre className="mt-1 max-h-40 overflow-auto text-sm whitespace-pre-wrap" tabIndex={0}>
                {visible((instruction ?? '–').slice(0, inputShown))}
              </pre>
              {turn !== null && (
                <Link to="/p/$project/turns/$turn" params={{ project, turn }} className="text-sm underline">
                  Recorded turn
                </Link>
              )}
            </section>
            {results.map((one) => (
              <ResultView key={`${one.variant} ${one.repeat}`} project={project} result={one} first={results[0]!} />
            ))}
          </div>
        )}
      </QueryState>
    </Dialog>
  )
}

function ResultView({
  project,
  result,
  first,
}: {
  readonly project: string
  readonly result: Result
  readonly first: Result
}) {
  const { variant, repeat, output, agent_turn_id: turn, checks } = result
  const title = `${variant}${repeat > 1 ? ` #${repeat}` : ''}`
  return (
    <section aria-label={title} className="rounded border border-line">
      <header className="flex flex-wrap items-center gap-x-3 border-b border-line bg-sunk px-2 py-1">
        <h3 className="font-semibold">
          <bdi>{oneLine(title, 80)}</bdi>
        </h3>
        <Verdict cell={result} />
        <span className="text-sm text-ink-2">{dollars(result.cost_micros)}</span>
        {turn !== null && (
          <Link to="/p/$project/turns/$turn" params={{ project, turn }} className="ml-auto text-sm underline">
            Turn
          </Link>
        )}
      </header>
      <ul aria-label={`Checks of ${title}`} className="px-2 py-1 text-sm">
        {checks.map((check, at) => (
          <li key={at} className="flex items-start gap-2">
            <span className={check.passed === true ? 'text-done' : check.passed === false ? 'text-bad' : 'text-ink-3'}>
              <Glyph shape={check.passed === true ? 'check' : check.passed === false ? 'cross' : 'dots'} />
            </span>
            <span className="min-w-0">
              <span className="font-medium">{oneLine(check.check, 100)}</span>{' '}
              <span className="text-ink-2">{oneLine(check.reason, 500)}</span>{' '}
              {check.agent_turn_id !== null && (
                <Link to="/p/$project/turns/$turn" params={{ project, turn: check.agent_turn_id }} className="link">
                  judge
                </Link>
              )}
            </span>
          </li>
        ))}
      </ul>
      {output !== null && <Output result={result} first={first} />}
    </section>
  )
}

const marks = { same: ' ', first: '−', second: '+' } as const
const tones = { same: 'text-ink-2', first: 'bg-bad-soft text-bad', second: 'bg-done-soft text-done' } as const

function Output({ result, first }: { readonly result: Result; readonly first: Result }) {
  const output = (result.output ?? '').slice(0, outputShown)
  const lines =
    result === first || first.output === null ? undefined : outputDiff(first.output.slice(0, outputShown), output)
  const name =
    lines === undefined ? `Output of ${result.variant}` : `Output of ${result.variant} against ${first.variant}`
  return (
    <div className="border-t border-line px-2 py-1">
      <p className="text-sm text-ink-2">{name}</p>
      <div
        role="group"
        aria-label={name}
        tabIndex={0}
        className="max-h-96 overflow-auto font-mono text-xs whitespace-pre-wrap"
      >
        {lines === undefined
          ? visible(output)
          : lines.map(({ kind, text }, at) => (
              <div key={at} className={tones[kind]}>
                {`${marks[kind]} `}
                {visible(text)}
              </div>
            ))}
      </div>
      {result.output_truncated && <p className="text-sm text-ink-2">The rest is on the page of the turn.</p>}
    </div>
  )
}
