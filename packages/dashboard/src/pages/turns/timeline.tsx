/** The timeline of a turn: inbox → steps → tools → deliverable, with long texts folded. */
import { isObject, objectOf } from '@bellwether/base'
import { reasonInWords } from '@bellwether/protocol/spending'
import { useQuery } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { cardQuery } from '../../api/queries.js'
import type { Card, Fallback, Step, TurnDetail, Wait } from '../../api/types.js'
import { compact } from '../../model/board.js'
import { appearanceOf, type Shape, type Tone } from '../../model/status.js'
import { own } from '../../model/own.js'
import { oneLine, plural, textOf } from '../../model/text.js'
import { duration, msOf } from '../../model/time.js'
import { fieldsIn, originOf, timeline, tokensOf, type Moment } from '../../model/turn.js'
import { meaningOf } from '../../model/watchdog.js'
import { Glyph } from '../../parts/glyph.js'
import { Json, UntrustedText } from '../../parts/untrusted-text.js'
import { Failure } from '../../parts/query-state.js'
import { Chip, Status, toneText } from '../../parts/status.js'
import { At } from '../../parts/time.js'

export function Timeline({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  return (
    <ol className="px-3 py-3">
      {timeline(turn).map((moment) => (
        <li key={moment.id} className="[contain-intrinsic-size:auto_60px] [content-visibility:auto]">
          <MomentEntry project={project} turn={turn} moment={moment} />
        </li>
      ))}
      {turn.cards_truncated && <li className="label pb-3 pl-7">The turn has more cards than are shown here.</li>}
      {turn.ended_at === null && (
        <li>
          <Entry
            shape={appearanceOf(turn.status).shape}
            tone={appearanceOf(turn.status).tone}
            title={`Now: ${appearanceOf(turn.status).means}`}
            isLast
          />
        </li>
      )}
    </ol>
  )
}

interface EntryProps {
  readonly shape: Shape
  readonly tone: Tone
  readonly title: ReactNode
  readonly at?: string
  readonly aside?: ReactNode
  readonly isLast?: boolean
  readonly children?: ReactNode
}

function Entry({ shape, tone, title, at, aside, isLast = false, children }: EntryProps) {
  return (
    <div className="grid grid-cols-[16px_minmax(0,1fr)] gap-x-3">
      <div className={`flex flex-col items-center ${toneText[tone]}`}>
        <span className="mt-1">
          <Glyph shape={shape} />
        </span>
        {!isLast && <span className="my-1 w-px flex-1 bg-line" />}
      </div>
      <div className="min-w-0 pb-4">
        <div className="flex flex-wrap items-baseline gap-x-3">
          <span className="min-w-0 flex-1 font-medium">{title}</span>
          {aside !== undefined && <span className="text-xs text-ink-3">{aside}</span>}
          {at !== undefined && (
            <span className="text-xs text-ink-3">
              <At at={at} />
            </span>
          )}
        </div>
        {children}
      </div>
    </div>
  )
}

function MomentEntry({
  project,
  turn,
  moment,
}: {
  readonly project: string
  readonly turn: TurnDetail
  readonly moment: Moment
}) {
  switch (moment.what) {
    case 'inbox':
      return (
        <Entry shape="arrow" tone="start" title="Queued" at={moment.at}>
          <p className="text-sm text-ink-2">{originOf(turn)}</p>
        </Entry>
      )
    case 'start':
      return (
        <Entry
          shape="disc"
          tone="go"
          title="Started"
          at={moment.at}
          aside={moment.by === null ? undefined : oneLine(moment.by, 60)}
        />
      )
    case 'card':
      return <CardEntry card={moment.card} />
    case 'step':
      return <StepEntry project={project} step={moment.step} waits={moment.waits} />
    case 'watchdog': {
      const { kind, reason } = moment.intervention
      const { found, how } = meaningOf(kind)
      return (
        <Entry shape="eye" tone="wait" title={`Watchdog: ${oneLine(kind, 60)}`} at={moment.at}>
          <p className="text-sm text-ink-2">
            Found {oneLine(found, 200)}; {oneLine(how, 200)} ({oneLine(reason, 200)}).
          </p>
        </Entry>
      )
    }
    case 'end':
      return <End turn={turn} at={moment.at} />
  }
}

const cardTitles: Readonly<Record<string, string>> = {
  'task.instruction': 'Instruction',
  'agent.thought': 'Thought',
  'task.result_fields': 'Requested fields',
  'sys.rendered_prompt': 'Prompt',
}

function CardEntry({ card }: { readonly card: Card }) {
  const isField = card.type === 'task.result_fields'
  return (
    <Entry
      shape={card.type === 'task.instruction' ? 'dots' : 'ring'}
      tone="rest"
      title={own(cardTitles, card.type) ?? oneLine(card.type, 60)}
      at={card.created_at}
    >
      <div className="text-sm text-ink-2">
        {isField ? <Json value={card.content} /> : <UntrustedText text={textOf(card.content)} />}
      </div>
    </Entry>
  )
}

function StepEntry({
  project,
  step,
  waits,
}: {
  readonly project: string
  readonly step: Step
  readonly waits: readonly Wait[]
}) {
  const appearance = appearanceOf(step.status)
  const [from, to] = [msOf(step.started_at), msOf(step.ended_at)]
  const tokens = tokensOf(step)
  const details = [
    // A step that is reported only at its end has no duration.
    from !== null && to !== null && to > from ? duration(to - from) : '',
    tokens > 0 ? `${compact(tokens)} tokens` : '',
  ].filter((one) => one !== '')
  return (
    <Entry
      shape={appearance.shape}
      tone={appearance.tone}
      title={<>Step: {oneLine(step.phase, 80)}</>}
      at={step.started_at}
      aside={details.join(', ')}
    >
      {step.error !== null && (
        <div className="text-sm text-bad">
          <UntrustedText text={reasonInWords(step.error)} />
        </div>
      )}
      <ul className="mt-1 space-y-1">
        {waits.map((wait) => (
          <li key={wait.tool_call_id}>
            <Call project={project} wait={wait} />
          </li>
        ))}
      </ul>
    </Entry>
  )
}

/** A tool call. Arguments and result are loaded when it is opened. */
function Call({ project, wait }: { readonly project: string; readonly wait: Wait }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details className="rounded border border-line" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="flex items-center gap-3 px-2 py-1 text-sm">
        <span className="min-w-0 flex-1 truncate font-mono text-xs font-medium">
          <bdi>{oneLine(wait.tool_name, 80)}</bdi>
        </span>
        <Status word={wait.wait_status} />
      </summary>
      {isOpen && (
        <div className="space-y-2 border-t border-line px-2 py-2 text-sm">
          <CardOf project={project} id={wait.tool_call_card_id} title="Arguments" field="arguments" />
          <CardOf project={project} id={wait.tool_result_card_id} title="Result" />
        </div>
      )}
    </details>
  )
}

interface CardOfProps {
  readonly project: string
  readonly id: string | null
  readonly title: string
  readonly field?: string
}

export function CardOf({ project, id, title, field }: CardOfProps) {
  const card = useQuery({ ...cardQuery(project, id ?? ''), enabled: id !== null })
  if (id === null) return <p className="text-ink-3">{title}: none yet</p>
  if (card.error !== null) return <Failure error={card.error} />
  const content = card.data?.content
  const shown = field !== undefined && isObject(content) && field in content ? content[field] : content
  return (
    <div>
      <p className="label">{title}</p>
      {card.data === undefined ? <div className="skeleton h-4 w-1/2" /> : <Json value={shown} />}
    </div>
  )
}

function End({ turn, at }: { readonly turn: TurnDetail; readonly at: string }) {
  const appearance = appearanceOf(turn.status)
  const content = turn.deliverable?.content
  const fallback = turn.deliverable?.fallback ?? null
  return (
    <Entry
      shape={appearance.shape}
      tone={appearance.tone}
      title={
        <>
          Deliverable: {appearance.word}{' '}
          {fallback !== null && (
            <Chip tone="wait" title="The turn did not succeed: this is the reason and the work so far, not a result.">
              fallback
            </Chip>
          )}
        </>
      }
      at={at}
      isLast
    >
      {turn.error !== null && (
        <div className="text-sm text-bad">
          <UntrustedText text={reasonInWords(turn.error)} />
        </div>
      )}
      {content === undefined ? (
        <p className="text-sm text-ink-3">Its card was removed by retention.</p>
      ) : (
        <div className="mt-1 rounded bg-sunk px-2 py-1.5 text-sm">
          <Delivered content={content} />
        </div>
      )}
      {fallback !== null && <FallbackWork fallback={fallback} shown={textOf(content)} />}
    </Entry>
  )
}

/** Who ended the turn, and the work that its deliverable does not already show. */
function FallbackWork({ fallback, shown }: { readonly fallback: Fallback; readonly shown: string }) {
  const { ended_by, last_text, tool_results, tool_results_received, started, cards } = fallback
  return (
    <div className="mt-1 space-y-1 text-sm text-ink-2">
      <p>
        Ended by {oneLine(ended_by, 200)}.{' '}
        {started
          ? `The turn wrote ${plural(cards, 'card')} and received ${plural(tool_results_received, 'tool result')}.`
          : 'The turn never started.'}
      </p>
      {last_text !== null && !shown.includes(last_text) && (
        <div className="rounded bg-sunk px-2 py-1.5">
          <p className="label">The work so far</p>
          <UntrustedText text={last_text} />
        </div>
      )}
      {tool_results.length > 0 && (
        <details className="rounded border border-line px-2 py-1">
          <summary>Tool results</summary>
          <Json value={tool_results} />
        </details>
      )}
    </div>
  )
}

/** Text, named fields, or JSON. */
function Delivered({ content }: { readonly content: unknown }) {
  const fields = fieldsIn(content)
  if (fields.length === 0)
    return <UntrustedText text={textOf(content)} mono={typeof content !== 'string' && !hasText(content)} />
  return (
    <dl className="space-y-1.5">
      {fields.map(({ name, value }, at) => (
        <div key={at}>
          <dt className="label">
            <bdi>{oneLine(name, 80)}</bdi>
          </dt>
          <dd>{typeof value === 'string' ? <UntrustedText text={value} /> : <Json value={value} />}</dd>
        </div>
      ))}
    </dl>
  )
}

const hasText = (content: unknown) => 'text' in objectOf(content)
