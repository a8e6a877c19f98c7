/** Draws stacked bars or lines. The drawing stretches to its frame, so that no size is measured; the axis is text beside it. */
import type { PointerEvent } from 'react'
import { axisText, blocksOf, colourOf, faces, highestOf, niceMax, pathOf, type Chart } from '../../model/chart.js'

const height = 100
// The part of its room that a bar takes.
const barWidth = 0.78

interface PlotProps {
  readonly chart: Chart
  readonly bars: number
  readonly chosen: number | undefined
  readonly choose: (bar: number | undefined) => void
  readonly open: () => void
  /** Shown instead of an empty plot. */
  readonly note: string | undefined
}

export function Plot({ chart, bars, chosen, choose, open, note }: PlotProps) {
  const { isStacked } = faces[chart.chart]
  const max = niceMax(highestOf(chart, bars), chart.unit)
  const barAt = (event: PointerEvent<SVGSVGElement>) => {
    const { left, width } = event.currentTarget.getBoundingClientRect()
    return Math.max(0, Math.min(bars - 1, Math.floor(((event.clientX - left) / width) * bars)))
  }
  return (
    <div className="flex h-36 gap-1">
      <div
        className="flex w-12 shrink-0 flex-col justify-between text-right text-xs whitespace-nowrap text-ink-3"
        aria-hidden="true"
      >
        {[max, max / 2, 0].map((value) => (
          <span key={value}>{axisText(chart.unit, value)}</span>
        ))}
      </div>
      <div className="relative min-w-0 flex-1 py-2">
        <svg
          aria-hidden="true"
          className="h-full w-full overflow-visible"
          viewBox={`0 0 ${bars} ${height}`}
          preserveAspectRatio="none"
          onPointerMove={(event) => choose(barAt(event))}
          onPointerLeave={() => choose(undefined)}
          onClick={open}
        >
          {[0, height / 2, height].map((y) => (
            <line key={y} x1={0} x2={bars} y1={y} y2={y} stroke="var(--line)" vectorEffect="non-scaling-stroke" />
          ))}
          {/* A pointer over an empty bar is over the chart too. */}
          <rect width={bars} height={height} fill="transparent" />
          {chosen !== undefined && (
            <rect x={chosen} width={1} height={height} fill="var(--hover)" data-chosen={chosen} />
          )}
          {isStacked
            ? blocksOf(chart.series, bars, max).map((blocks, at) => (
                <g key={chart.series[at]!.name} fill={colourOf(chart.chart, chart.series[at]!, at)}>
                  {blocks.map(({ bar, from, to }) => (
                    <rect
                      key={bar}
                      x={bar + (1 - barWidth) / 2}
                      width={barWidth}
                      y={height * (1 - to)}
                      height={height * (to - from)}
                    />
                  ))}
                </g>
              ))
            : chart.series.map((one, at) => (
                <path
                  key={one.name}
                  d={pathOf(one.values, max, height)}
                  fill="none"
                  stroke={colourOf(chart.chart, one, at)}
                  strokeWidth={2}
                  strokeLinecap="round"
                  strokeLinejoin="round"
                  vectorEffect="non-scaling-stroke"
                />
              ))}
        </svg>
        {note !== undefined && (
          <p className="absolute inset-0 flex items-center justify-center text-sm text-ink-3">
            <span className="bg-panel px-2">{note}</span>
          </p>
        )}
      </div>
    </div>
  )
}
