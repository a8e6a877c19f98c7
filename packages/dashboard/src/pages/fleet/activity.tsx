/** The summary of the fleet: what is running, is stuck, needs a person, and what it cost. Each number links to what it counts. */
import { dollars } from '@bellwether/protocol/spending'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { trendsQuery } from '../../api/queries.js'
import type { Trends } from '../../api/types.js'
import type { Tally } from '../../model/fleet.js'
import { headOf, headWords, restWord, type Shape, type Tone } from '../../model/status.js'
import { count } from '../../model/text.js'
import { Glyph, Icon } from '../../parts/glyph.js'
import { useNeeds } from '../../frame/needs.js'
import { toneText } from '../../parts/status.js'

interface ActivityProps {
  readonly project: string
  /** Undefined while loading. */
  readonly sums: Tally | undefined
}

export function Activity({ project, sums }: ActivityProps) {
  const needs = useNeeds(project)
  const spent = useQuery({ ...trendsQuery(project, '24h', undefined), refetchInterval: 60_000, select: costOf }).data
  const fleet = { to: '/p/$project/fleet', params: { project } } as const
  return (
    <section
      aria-label="Summary"
      className="grid grid-cols-3 gap-2 px-3 pt-3 sm:grid-cols-4 lg:grid-cols-[repeat(6,minmax(0,1fr))_minmax(max-content,1fr)]"
    >
      <Link {...fleet} search={{ show: 'working' }} className={tile}>
        <Figure shape="disc" tone="go" name={working} number={sums?.working} />
      </Link>
      <Link {...fleet} search={{ show: 'stuck' }} className={loud('bad', sums?.stuck)}>
        <Figure shape="triangle" tone="bad" name="stuck" number={sums?.stuck} />
      </Link>
      <Link to="/p/$project/needs-you" params={{ project }} className={loud('person', needs)}>
        <Figure shape="hand" tone="person" name={needs === 1 ? 'needs you' : 'need you'} number={needs} />
      </Link>
      <Link {...fleet} search={{ show: 'waiting' }} className={tile}>
        <Figure shape="half" tone="wait" name="waiting" number={sums?.waiting} />
      </Link>
      <Link {...fleet} search={{ show: 'resting' }} className={tile}>
        <Figure shape="ring" tone="rest" name={restWord} number={sums?.resting} />
      </Link>
      <Link to="/p/$project/turns" params={{ project }} search={{ status: 'queued' }} className={tile}>
        <Figure shape="dots" tone="rest" name="queued" number={sums && sums.queued + sums.starting} />
      </Link>
      <Link
        to="/p/$project/trends"
        params={{ project }}
        search={{}}
        className={`${tile} max-sm:col-span-3 sm:max-lg:col-span-2`}
      >
        <Figure tone="done" name="cost, last 24 h" number={spent} say={dollars} />
      </Link>
    </section>
  )
}

/** In millionths of a dollar, of all agents. */
const costOf = ({ charts }: Trends) =>
  charts.find(({ chart }) => chart === 'cost_by_agent')?.series.reduce((sum, { total }) => sum + (total ?? 0), 0)

const working = headWords.find((word) => headOf(word).isBeating) ?? ''
const tile = 'panel block px-3 py-2 hover:bg-hover'
/** A number that needs attention stands out if it is not zero. */
const loud = (tone: 'bad' | 'person', number: number | undefined) =>
  number === undefined || number === 0
    ? tile
    : `block rounded-md border px-3 py-2 ${tone === 'bad' ? 'border-bad bg-bad-soft' : 'border-person bg-person-soft'}`

interface FigureProps {
  /** Absent: not a status. */
  readonly shape?: Shape
  readonly tone: Tone
  readonly name: string
  readonly number: number | undefined
  readonly say?: (number: number) => string
}

function Figure({ shape, tone, name, number, say = count }: FigureProps) {
  const colour = number === 0 || number === undefined ? 'text-ink-3' : toneText[tone]
  return (
    <>
      <span className={`block h-7 text-2xl font-semibold whitespace-nowrap ${colour}`}>
        {number === undefined ? '–' : say(number)}
      </span>
      <span className="flex items-center gap-1.5 text-sm whitespace-nowrap text-ink-2">
        <span className={colour}>
          {shape === undefined ? <Icon name="trends" size={12} /> : <Glyph shape={shape} />}
        </span>
        {name}
      </span>
    </>
  )
}
