/**
 * The transcript of a turn: what its agent wrote and did. The box has a fixed height and scrolls by itself, so the rest of the page does not
 * move; it follows the newest entry until the person scrolls up. Text of agents is plain text.
 */
import { useLayoutEffect, useMemo, useRef, useState } from 'react'
import { askText, serverNowMs } from '../../api/client.js'
import type { TurnDetail } from '../../api/types.js'
import { Section } from '../../frame/page.js'
import { useTranscript, type TranscriptReading } from '../../live/transcript.js'
import { zoneOf } from '../../model/time.js'
import { blocksOf } from '../../model/transcript.js'
import { Failure } from '../../parts/query-state.js'
import { saveText } from '../../ports/download.js'
import { TranscriptBlock } from './transcript-block.js'

interface TranscriptProps {
  readonly project: string
  readonly turn: TurnDetail
}

export function Transcript({ project, turn }: TranscriptProps) {
  const id = turn.agent_turn_id
  const reading = useTranscript(project, id, turn.ended_at === null)
  return (
    <Section
      title="Transcript"
      aside={
        <>
          <LinkNote reading={reading} />
          <span className="label">times in {zoneOf(serverNowMs())}</span>
          <Download project={project} turn={id} />
        </>
      }
    >
      <Entries reading={reading} />
    </Section>
  )
}

function LinkNote({ reading: { link } }: { readonly reading: TranscriptReading }) {
  if (link === undefined) return null
  return <span className="label">{link === 'live' ? 'live' : link === 'lost' ? 'reconnecting…' : 'connecting…'}</span>
}

/** The whole transcript as a text file. */
function Download({ project, turn }: { readonly project: string; readonly turn: string }) {
  const [state, setState] = useState<'ready' | 'busy' | 'failed'>('ready')
  const save = async () => {
    setState('busy')
    saveText(
      `transcript-${turn}.txt`,
      await askText('GET /projects/:project/turns/:turn/transcript/text', { params: { project, turn } }),
    )
    setState('ready')
  }
  return (
    <>
      <span role="status" className="label text-bad">
        {state === 'failed' ? 'The download failed. Try again.' : ''}
      </span>
      <button
        type="button"
        className="link text-xs"
        disabled={state === 'busy'}
        onClick={() => void save().catch(() => setState('failed'))}
      >
        Download as text
      </button>
    </>
  )
}

// A person who scrolled up by less still follows the end.
const nearPx = 24

function Entries({ reading: { shown, error, isReading, read } }: { readonly reading: TranscriptReading }) {
  const box = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  /** The distance from the end of the content that must not change when older entries are added. */
  const fromEnd = useRef<number>(undefined)
  const entries = shown?.entries
  const blocks = useMemo(() => blocksOf(entries ?? []), [entries])
  useLayoutEffect(() => {
    const log = box.current
    if (log === null) return
    if (fromEnd.current !== undefined) log.scrollTop = log.scrollHeight - fromEnd.current
    else if (isAtEnd.current) log.scrollTop = log.scrollHeight
    fromEnd.current = undefined
  }, [blocks])

  const readEarlier = () => {
    const log = box.current
    if (log !== null) fromEnd.current = log.scrollHeight - log.scrollTop
    isAtEnd.current = false
    read('earlier')
  }
  const readNewest = () => {
    isAtEnd.current = true
    read('newest')
  }
  return (
    <div
      ref={box}
      role="log"
      aria-label="Entries of the transcript"
      aria-busy={isReading}
      tabIndex={0}
      className="h-96 overflow-x-hidden overflow-y-auto py-1 [contain:layout_paint]"
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < nearPx
      }}
    >
      {shown !== undefined && shown.earlier !== null && (
        <More name="Load earlier entries" isBusy={isReading} act={readEarlier} />
      )}
      <ol>
        {blocks.map((block, at) => (
          <TranscriptBlock key={block.seq} block={block} epochBefore={blocks[at - 1]?.epoch ?? block.epoch} />
        ))}
      </ol>
      {shown === undefined && error === null && <p className="label px-3 py-2">Loading the transcript…</p>}
      {shown !== undefined && blocks.length === 0 && (
        <p className="px-3 py-2 text-sm text-ink-3">The agent has written nothing here.</p>
      )}
      {shown?.hasNewer === true && (
        <>
          <More name="Load later entries" isBusy={isReading} act={() => read('newer')} />
          <More name="Go to the newest entries" isBusy={isReading} act={readNewest} />
        </>
      )}
      {error !== null && <Failure error={error} retry={readNewest} isFramed />}
    </div>
  )
}

interface MoreProps {
  readonly name: string
  readonly isBusy: boolean
  readonly act: () => void
}

const More = ({ name, isBusy, act }: MoreProps) => (
  <button type="button" className="link px-3 py-1 text-sm" disabled={isBusy} onClick={act}>
    {name}
  </button>
)
