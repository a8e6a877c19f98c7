/** How times and states of evaluations read. */
import type { EvalCell, EvalRunLine } from '../../api/types.js'
import { valueText } from '../../model/chart.js'
import { Glyph } from '../../parts/glyph.js'
import { Chip } from '../../parts/status.js'

export const timeOf = (ms: number | null): string => valueText('ms', ms)

export function RunState({ run }: { readonly run: EvalRunLine }) {
  if (run.status === 'open') return <Chip tone="go">{`${run.done} of ${run.results}`}</Chip>
  if (run.status === 'stopping') return <Chip tone="wait">stopping</Chip>
  if (run.status === 'stopped') return <Chip tone="rest">stopped</Chip>
  return run.failed === 0 ? <Chip tone="done">all passed</Chip> : <Chip tone="bad">{`${run.failed} failed`}</Chip>
}

export function Verdict({ cell }: { readonly cell: EvalCell }) {
  if (cell.passed === null) return <span className="text-sm text-ink-3">{cell.status}</span>
  return (
    <span className={`inline-flex items-center gap-1 ${cell.passed ? 'text-done' : 'text-bad'}`}>
      <Glyph shape={cell.passed ? 'check' : 'cross'} />
      {cell.passed ? 'pass' : 'fail'}
      <span className="text-xs text-ink-3">{timeOf(cell.duration_ms)}</span>
    </span>
  )
}
