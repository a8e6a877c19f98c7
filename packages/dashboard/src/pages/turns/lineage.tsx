/** The parent and children of a turn as a graph: boxes in a list, which screen readers read as a tree, with lines between them. */
import { reasonInWords } from '@bellwether/protocol/spending'
import { Link } from '@tanstack/react-router'
import { useMemo, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import type { Relative, TurnDetail } from '../../api/types.js'
import { lineageOf, relationText, selfText, takeoversOf, type LineageNode } from '../../model/lineage.js'
import { countRelatives, tallyRelatives } from '../../model/relatives.js'
import { oneLine, plural, shortId, shortNames } from '../../model/text.js'
import { duration, msOf } from '../../model/time.js'
import { Status } from '../../parts/status.js'
import { useWide } from '../../parts/wide.js'

interface Props {
  readonly project: string
  readonly turn: TurnDetail
}

// A fork-join may have a thousand children; more boxes at a time are of no use.
const shownMax = 200

/** Lengths in pixels. On a phone the turn fits beside its parent. */
const sizes = { wide: { width: 190, gap: 36 }, narrow: { width: 152, gap: 20 } } as const
const boxHeight = 60
const rowHeight = 70

export function Lineage({ project, turn }: Props) {
  const [most, setMost] = useState(shownMax)
  const { width, gap } = sizes[useWide() ? 'wide' : 'narrow']
  const { nodes, columns, rows } = useMemo(() => lineageOf(turn, most), [turn, most])
  const list = useRef<HTMLUListElement>(null)
  const showMore = (first: string) => {
    flushSync(() => setMost(most + shownMax))
    // The button goes away with its box: the keyboard continues with the turn at its place.
    list.current?.querySelector<HTMLElement>(`[data-turn="${CSS.escape(first)}"]`)?.focus()
  }
  const all = countRelatives(turn.children)
  const leftOf = (column: number) => column * (width + gap)
  const lineTo = ({ column, row, from }: LineageNode) => {
    if (from === null) return ''
    const [right, left] = [leftOf(from.column) + width, leftOf(column)]
    const [top, bottom] = [from.row * rowHeight + boxHeight / 2, row * rowHeight + boxHeight / 2]
    return `M${right} ${top}H${(right + left) / 2}V${bottom}H${left}`
  }
  const size = { width: leftOf(columns) - gap, height: rows * rowHeight - (rowHeight - boxHeight) }
  return (
    <div className="text-sm">
      {all > 4 && (
        <p className="flex flex-wrap items-center gap-2 px-3 pt-2 text-ink-2">
          {plural(all, 'turn')} below it:
          {tallyRelatives(turn.children).map(([word, number]) => (
            <span key={word} className="flex items-center gap-1">
              {number} <Status word={word} />
            </span>
          ))}
        </p>
      )}
      <div className="max-h-[430px] overflow-auto p-3">
        <div className="relative" style={size}>
          <svg
            aria-hidden="true"
            {...size}
            shapeRendering="crispEdges"
            className="absolute inset-0 fill-none stroke-line-strong"
          >
            {nodes.map((node) => (
              <path key={node.key} d={lineTo(node)} strokeDasharray={isLater(node, turn) ? '4 3' : undefined} />
            ))}
          </svg>
          <ul ref={list} aria-label="Parent and children of this turn">
            {nodes.map((node) => (
              <li
                key={node.key}
                className="absolute"
                style={{ left: leftOf(node.column), top: node.row * rowHeight, width, height: boxHeight }}
              >
                <Box project={project} turn={turn} node={node} showMore={showMore} />
              </li>
            ))}
          </ul>
        </div>
      </div>
      {turn.children_truncated && <p className="label px-3 pb-2">More exist.</p>}
      {nodes.length === 1 && <p className="px-3 pb-2 text-ink-3">No parent and no children.</p>}
    </div>
  )
}

/** Whether a turn began after the one that it came from had ended: it has a dashed line. */
function isLater(node: LineageNode, { parent }: TurnDetail): boolean {
  const relative = node.what === 'relative' ? node.relative : node.what === 'self' ? parent : null
  return relative?.relation === 'fork' || relative?.relation === 'follow_up'
}

const box = 'flex h-full w-full flex-col justify-center rounded border px-2 text-left'

function Box({
  project,
  turn,
  node,
  showMore,
}: Props & { readonly node: LineageNode; readonly showMore: (first: string) => void }) {
  if (node.what === 'relative') return <RelativeBox project={project} turn={turn} node={node} />
  const takeovers = takeoversOf(turn)
  if (node.what === 'self')
    return (
      <div className={`${box} border-2 border-ink bg-hover`} aria-current="true">
        <Name agent={turn.agent_id} id={turn.agent_turn_id} />
        <Facts status={turn.status} more={takeovers === 0 ? null : plural(takeovers, 'takeover')} />
        <span className="truncate text-xs text-ink-2">
          {selfText(turn)}
          <From node={node} turn={turn} />
        </span>
      </div>
    )
  return (
    <button
      type="button"
      className={`${box} border-dashed border-line-strong text-link hover:bg-hover`}
      onClick={() => showMore(node.first)}
    >
      {plural(node.count, 'more', 'more')}
      <From node={node} turn={turn} />
    </button>
  )
}

interface RelativeBoxProps extends Props {
  readonly node: LineageNode & { readonly relative: Relative }
}

function RelativeBox({ project, turn, node }: RelativeBoxProps) {
  const { relative } = node
  const agent = agentOf(relative)
  const [from, to] = [msOf(relative.started_at), msOf(relative.ended_at)]
  const error = relative.error ?? null
  return (
    <Link
      to="/p/$project/turns/$turn"
      params={{ project, turn: relative.agent_turn_id }}
      data-turn={relative.agent_turn_id}
      className={`${box} border-line-strong bg-panel hover:bg-hover`}
      title={oneLine([agent, shortId(relative.agent_turn_id), ...(error === null ? [] : [error])].join(' '), 500)}
    >
      <Name agent={agent} id={relative.agent_turn_id} />
      <Facts status={relative.status} more={from === null || to === null ? null : duration(to - from)} />
      <span className="truncate text-xs text-ink-2">
        {node.from === null ? 'parent' : relationText(relative)}
        <From node={node} turn={turn} />
        {error !== null && (
          <span className="text-bad">
            , <bdi>{oneLine(reasonInWords(error), 120)}</bdi>
          </span>
        )}
      </span>
    </Link>
  )
}

function Facts({ status, more }: { readonly status: string | null; readonly more: string | null }) {
  return (
    <span className="flex items-center justify-between gap-2">
      <span className="shrink-0">
        {status === null ? <span className="text-ink-3">removed</span> : <Status word={status} />}
      </span>{' '}
      {more !== null && (
        <span className="min-w-0 truncate text-xs text-ink-2" title={more}>
          {more}
        </span>
      )}
    </span>
  )
}

function Name({ agent, id }: { readonly agent: string; readonly id: string }) {
  return (
    <span className="flex items-baseline justify-between gap-2">
      <span className="min-w-0 truncate font-semibold">
        <bdi>{oneLine(shortNames(agent), 80)}</bdi>
      </span>{' '}
      <span className="shrink-0 font-mono text-xs text-ink-3 max-sm:sr-only">{shortId(id)}</span>
    </span>
  )
}

/** Says what the line to the box shows. */
function From({ node: { from }, turn }: { readonly node: LineageNode; readonly turn: TurnDetail }) {
  if (from === null || from.what === 'more') return null
  const agent = from.what === 'self' ? turn.agent_id : agentOf(from.relative)
  return <span className="sr-only"> of {oneLine(agent, 80)}</span>
}

const agentOf = ({ agent_id: agent }: Relative) => agent ?? 'unknown agent'
