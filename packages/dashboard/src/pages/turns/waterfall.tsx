/**
 * The waterfall of a turn: one bar per span on a common time axis, with what watchdogs and people did to the turn. Only visible rows are
 * rendered. The axis is zoomed and moved with buttons, with Ctrl and the wheel, or with + - 0 and the arrow keys.
 */
import { dollars } from '@bellwether/protocol/spending'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react'
import { spansQuery } from '../../api/queries.js'
import type { Span, TurnDetail } from '../../api/types.js'
import { compact } from '../../model/board.js'
import { appearanceOf } from '../../model/status.js'
import { oneLine, plural, shortNames } from '../../model/text.js'
import { duration, msOf } from '../../model/time.js'
import {
  fullRange,
  moved,
  placeOf,
  rangeOf,
  rowsOf,
  ticks,
  titleOf,
  zoomed,
  type Range,
  type SpanRow,
} from '../../model/waterfall.js'
import { Section } from '../../frame/page.js'
import { QueryState } from '../../parts/query-state.js'
import { VirtualRows } from '../../parts/rows.js'
import { Status } from '../../parts/status.js'
import { useNow } from '../../parts/time.js'
import { useWide } from '../../parts/wide.js'
import { UntrustedText } from '../../parts/untrusted-text.js'
import { StepText } from './step-text.js'
import { CardOf } from './timeline.js'
import { fillOf, Legend, type Mark } from './waterfall-legend.js'

interface Props {
  readonly project: string
  readonly turn: TurnDetail
}

const rowHeight = 26
// A third of a screen; the rest is reached by scrolling.
const rowsShown = 10
const columns = 'grid grid-cols-[minmax(7rem,32%)_minmax(0,1fr)_5.25rem] gap-x-2 px-3'
const zoomFactor = 2

export function Waterfall({ project, turn }: Props) {
  const isOver = turn.ended_at !== null
  const spans = useQuery(spansQuery(project, turn.agent_turn_id, isOver))
  const { refetch } = spans
  const [wasOver] = useState(isOver)
  // The last spans end with the turn.
  useEffect(() => {
    if (isOver && !wasOver) void refetch()
  }, [isOver, wasOver, refetch])
  return (
    <QueryState query={spans}>
      {(data) => <Chart project={project} turn={turn} spans={data.spans} isCut={data.truncated} />}
    </QueryState>
  )
}

function Chart({ project, turn, spans, isCut }: Props & { readonly spans: readonly Span[]; readonly isCut: boolean }) {
  const now = useNow()
  // Only a turn that runs has spans that grow.
  const nowMs = turn.ended_at === null ? now : (msOf(turn.ended_at) ?? now)
  const rows = useMemo(() => rowsOf(spans, nowMs), [spans, nowMs])
  const full = useMemo(() => fullRange(rows), [rows])
  const [chosenRange, setRange] = useState<Range | null>(null)
  const [openId, setOpen] = useState<string | null>(null)
  const range = chosenRange ?? full
  // A turn that runs has room for the spans to come, and keeps it when it ends.
  const [isGrowing] = useState(turn.ended_at === null)
  const height = rowHeight * (isGrowing ? rowsShown : Math.min(rowsShown, Math.max(2, rows.length)))
  const opened = rows.find((row) => row.span.span_id === openId)
  const box = useRef<HTMLDivElement>(null)
  const marks = useMemo(() => marksOf(turn), [turn])
  const zoom = (factor: number, around?: number) => {
    const next = zoomed(range, full, factor, around)
    setRange(next.toMs - next.fromMs >= full.toMs - full.fromMs ? null : next)
  }
  const move = (share: number) => setRange(chosenRange === null ? null : moved(range, full, share))
  const toggle = ({ span }: SpanRow) => setOpen(span.span_id === openId ? null : span.span_id)
  useWheelZoom(box, zoom)

  function onKeyDown(event: KeyboardEvent) {
    const acts: Readonly<Record<string, () => void>> = {
      '+': () => zoom(zoomFactor),
      '=': () => zoom(zoomFactor),
      '-': () => zoom(1 / zoomFactor),
      '0': () => setRange(null),
      ArrowLeft: () => move(-0.25),
      ArrowRight: () => move(0.25),
    }
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : acts[event.key]
    if (act === undefined) return
    event.preventDefault()
    act()
  }

  return (
    <Section
      title="Waterfall"
      aside={
        <span className="flex items-center gap-1">
          <span className="label mr-2">{plural(rows.length, 'span')}</span>
          <Tool name="Zoom in" sign="+" act={() => zoom(zoomFactor)} />
          <Tool name="Zoom out" sign="−" act={() => zoom(1 / zoomFactor)} isOff={chosenRange === null} />
          <Tool name="Earlier" sign="←" act={() => move(-0.25)} isOff={chosenRange === null} />
          <Tool name="Later" sign="→" act={() => move(0.25)} isOff={chosenRange === null} />
          <Tool name="Show all" sign="All" act={() => setRange(null)} isOff={chosenRange === null} />
        </span>
      }
    >
      <Legend rows={rows} marks={marks} />
      <div ref={box} onKeyDown={onKeyDown}>
        <Axis range={range} full={full} marks={marks} />
        <div style={{ height }} className="[&>*]:[scrollbar-gutter:stable]">
          <VirtualRows
            items={rows}
            height={rowHeight}
            label="Spans of this turn"
            keyOf={(row) => row.span.span_id}
            open={toggle}
            rowProps={(row) => ({ 'aria-label': spoken(row, full), 'aria-current': row.span.span_id === openId })}
          >
            {(row) => <Bar row={row} range={range} open={() => toggle(row)} />}
          </VirtualRows>
        </div>
      </div>
      {isCut && <p className="label border-t border-line px-3 py-1">The turn has more spans than are shown here.</p>}
      {opened !== undefined && (
        <Details
          project={project}
          turn={turn}
          row={opened}
          full={full}
          close={() => setOpen(null)}
          zoomTo={() => setRange(rangeOf(opened, full))}
        />
      )}
    </Section>
  )
}

/** The page must not scroll while Ctrl and the wheel zoom, which a passive listener could not prevent. */
function useWheelZoom(box: React.RefObject<HTMLDivElement | null>, zoom: (factor: number, around: number) => void) {
  const latest = useRef(zoom)
  latest.current = zoom
  useEffect(() => {
    const element = box.current
    if (element === null) return
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return
      event.preventDefault()
      const track = element.querySelector('[data-track]')?.getBoundingClientRect()
      const around = track === undefined ? 0.5 : (event.clientX - track.left) / Math.max(1, track.width)
      latest.current(event.deltaY < 0 ? zoomFactor : 1 / zoomFactor, Math.max(0, Math.min(1, around)))
    }
    element.addEventListener('wheel', onWheel, { passive: false })
    return () => element.removeEventListener('wheel', onWheel)
  }, [box])
}

interface ToolProps {
  readonly name: string
  readonly sign: string
  readonly act: () => void
  readonly isOff?: boolean
}

function Tool({ name, sign, act, isOff = false }: ToolProps) {
  return (
    <button type="button" className="button px-2" title={name} aria-label={name} disabled={isOff} onClick={act}>
      {sign}
    </button>
  )
}

/** What others did to the turn. */
function marksOf({ interventions, messages }: TurnDetail): Mark[] {
  return [
    ...interventions.map(({ created_at: at, kind }) => ({
      atMs: msOf(at) ?? 0,
      text: `Watchdog: ${oneLine(kind, 60)}`,
      tone: 'wait' as const,
    })),
    ...messages.map(({ created_at: at, sender }) => ({
      atMs: msOf(at) ?? 0,
      text: `Message from ${oneLine(sender, 60)}`,
      tone: 'person' as const,
    })),
  ]
}

function Axis({
  range,
  full,
  marks,
}: {
  readonly range: Range
  readonly full: Range
  readonly marks: readonly Mark[]
}) {
  const isWide = useWide()
  return (
    <div
      className={`${columns} h-[31px] overflow-hidden border-b border-line text-xs text-ink-3 [scrollbar-gutter:stable]`}
    >
      <span className="self-center truncate">Since queued</span>
      <span className="relative" data-track>
        {ticks(range, full.fromMs, isWide ? 6 : 2).map(({ left, text }) => (
          <span
            key={text}
            className="absolute top-0 h-full border-l border-line pl-1 pt-2 whitespace-nowrap"
            style={{ left: share(left) }}
          >
            {left < (isWide ? 0.92 : 0.6) && text}
          </span>
        ))}
        {marks.flatMap(({ atMs, text, tone }) => {
          const place = placeOf({ fromMs: atMs, toMs: atMs }, range)
          return place === null
            ? []
            : [
                <span
                  key={`${text} ${atMs}`}
                  role="img"
                  aria-label={`${text}, ${duration(atMs - full.fromMs)} after the start`}
                  title={text}
                  className={`absolute bottom-0 size-2 -translate-x-1 rotate-45 ${tone === 'wait' ? 'bg-wait' : 'bg-person'}`}
                  style={{ left: share(place.left) }}
                />,
              ]
        })}
      </span>
      <span className="self-center text-right">Duration</span>
    </div>
  )
}

const share = (part: number) => `${(part * 100).toFixed(3)}%`

function Bar({ row, range, open }: { readonly row: SpanRow; readonly range: Range; readonly open: () => void }) {
  const { span, depth, fromMs, toMs, isOpen } = row
  const place = placeOf(row, range)
  const first = span.first_token_ms
  const length = `${duration(toMs - fromMs)}${isOpen ? '…' : ''}`
  const waited = first === null ? null : placeOf({ fromMs, toMs: fromMs + first }, range)
  return (
    <div className={`${columns} h-full cursor-pointer items-center text-sm`} onClick={open}>
      <span className="truncate" style={{ paddingLeft: depth * 12 }}>
        <bdi title={oneLine(titleOf(span), 200)}>{oneLine(shortNames(titleOf(span)), 120)}</bdi>
      </span>
      <span className="relative h-3.5">
        {place !== null && (
          <span
            className={`absolute h-full min-w-0.5 rounded-xs ${fillOf(span)} ${isOpen ? 'opacity-60' : ''}`}
            style={{ left: share(place.left), width: share(place.width) }}
          />
        )}
        {waited !== null && (
          <span
            className="absolute h-full rounded-l-xs bg-panel/55"
            style={{ left: share(waited.left), width: share(waited.width) }}
          />
        )}
      </span>
      <span className="text-right text-xs whitespace-nowrap text-ink-2 tabular-nums">
        {/* A new element per text: a right-aligned one that grows would count as a layout shift. */}
        <span key={length}>{length}</span>
      </span>
    </div>
  )
}

/** What a screen reader says about a row. */
function spoken({ span, fromMs, toMs, isOpen }: SpanRow, full: Range): string {
  const length = isOpen ? `${duration(toMs - fromMs)} so far` : duration(toMs - fromMs)
  const status = span.status === null ? '' : `, ${appearanceOf(span.status).word}`
  return `${oneLine(titleOf(span), 120)}: ${length}, from ${duration(fromMs - full.fromMs)}${status}`
}

interface DetailsProps extends Props {
  readonly row: SpanRow
  readonly full: Range
  readonly close: () => void
  readonly zoomTo: () => void
}

function Details({ project, turn, row, full, close, zoomTo }: DetailsProps) {
  const { span, fromMs, toMs } = row
  const facts = [
    ['Start', `${duration(fromMs - full.fromMs)} after it was queued`],
    [
      span.kind === 'child' ? 'Queued to ended' : 'Duration',
      `${duration(toMs - fromMs)}${row.isOpen ? ' so far' : ''}`,
    ],
    ['Model', span.model === null ? null : oneLine(span.model, 80)],
    ['First token', span.first_token_ms === null ? null : `after ${duration(span.first_token_ms)}`],
    ['Tokens', span.tokens === null ? null : compact(span.tokens)],
    ['Cost', span.cost_micros === null ? null : dollars(span.cost_micros)],
    ['Tries', span.tries === null || span.tries <= 1 ? null : String(span.tries)],
  ] as const
  return (
    <div className="space-y-2 border-t border-line px-3 py-2 text-sm" role="region" aria-label="Selected span">
      <div className="flex flex-wrap items-center gap-2">
        <h3 className="min-w-0 flex-1 truncate font-semibold">
          <bdi>{oneLine(titleOf(span), 120)}</bdi>
        </h3>
        {span.status !== null && <Status word={span.status} />}
        <button type="button" className="button" onClick={zoomTo}>
          Zoom to it
        </button>
        <button type="button" className="button" onClick={close}>
          Close
        </button>
      </div>
      <dl className="flex flex-wrap gap-x-6 gap-y-1">
        {facts.map(([name, value]) =>
          value === null ? null : (
            <div key={name}>
              <dt className="label">{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
        )}
      </dl>
      {span.error !== null && (
        <div className="text-bad">
          <UntrustedText text={span.error} />
        </div>
      )}
      {span.kind === 'child' && (
        <Link to="/p/$project/turns/$turn" params={{ project, turn: span.agent_turn_id }} className="link">
          Open this turn
        </Link>
      )}
      {span.kind === 'step' && <StepText turn={turn} row={row} />}
      {span.call_card_id !== null && (
        <>
          <CardOf project={project} id={span.call_card_id} title="Arguments" field="arguments" />
          <CardOf project={project} id={span.result_card_id} title="Result" />
        </>
      )}
    </div>
  )
}
