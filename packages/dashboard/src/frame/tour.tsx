/** A tour of the pages, one minute long. A browser offers it on its first visit; the help starts it again. */
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState, type ReactNode } from 'react'
import { storage } from '../ports/storage.js'

interface Step {
  readonly title: string
  readonly text: ReactNode
  readonly to?:
    | '/p/$project/fleet'
    | '/p/$project/board'
    | '/p/$project/turns'
    | '/p/$project/trends'
    | '/p/$project/needs-you'
    | '/p/$project/health'
}

const key = (name: string) => <kbd className="rounded border border-line-strong px-1 font-mono text-xs">{name}</kbd>

const steps: readonly Step[] = [
  {
    title: 'New here?',
    text: 'This tour shows in one minute where you see what runs, what is stuck, what needs you, what it cost, and what changed.',
  },
  {
    title: 'Fleet: what runs, and what is stuck',
    to: '/p/$project/fleet',
    text: 'Each number at the top is a link to the agents that it counts. An agent with a turn past its deadline, or without a worker, is stuck.',
  },
  {
    title: 'Board: the tasks',
    to: '/p/$project/board',
    text: 'Each task says what it waits for, what it cost, and which one runs next and why. Open one to see what changed, with the diff, and to decide.',
  },
  {
    title: 'Turns: everything that ran',
    to: '/p/$project/turns',
    text: 'Open a turn for its timeline, transcript, files, tokens and cost. Filters are part of the address: copy it to share what you see.',
  },
  {
    title: 'Trends: what it cost',
    to: '/p/$project/trends',
    text: 'Turns, times, costs by agent and model, and what the watchdogs did, for an hour or for 90 days. Every chart can be read as a table.',
  },
  {
    title: 'Needs you: what waits for a person',
    to: '/p/$project/needs-you',
    text: 'Questions of agents, calls that need your permission, and tasks to approve or review. The title of the browser tab shows the number.',
  },
  {
    title: 'Health: what the watchdogs did',
    to: '/p/$project/health',
    text: 'Processes with their restarts, and every intervention with its reason.',
  },
  {
    title: 'By keyboard',
    text: (
      <>
        {key('?')} shows all keys: {key('g')} {key('b')} opens the board, {key('j')} and {key('k')} move, {key('x')}{' '}
        selects, {key('a')} acts on what is selected, {key('u')} takes back the last change. The help starts this tour
        again.
      </>
    ),
  },
]

const seenKey = 'tour'

/** Whether this browser has not seen or skipped the tour. */
export const isFirstVisit = (): boolean => storage.get('browser', seenKey) === undefined

export function Tour({ project, close }: { readonly project: string; readonly close: () => void }) {
  const [at, setAt] = useState(0)
  const card = useRef<HTMLElement>(null)
  const navigate = useNavigate()
  const { title, text } = steps[at]!
  // Screen readers read the step that has the focus.
  useEffect(() => card.current?.focus(), [at])
  const end = () => {
    storage.set('browser', seenKey, 'seen')
    close()
  }
  const go = (next: number) => {
    const step = steps[next]
    if (step === undefined) return end()
    setAt(next)
    if (step.to !== undefined) void navigate({ to: step.to, params: { project }, search: {} })
  }
  return (
    <section
      ref={card}
      role="dialog"
      aria-label="Tour"
      aria-describedby="tour-text"
      tabIndex={-1}
      className="panel fixed inset-x-3 bottom-16 z-30 p-4 shadow-2xl md:right-4 md:bottom-4 md:left-auto md:w-[360px]"
      onKeyDown={(event) => {
        if (event.key === 'Escape') end()
        else if (event.key === 'ArrowRight') go(at + 1)
        else if (event.key === 'ArrowLeft' && at > 0) go(at - 1)
        else return
        event.preventDefault()
        event.stopPropagation()
      }}
    >
      <div id="tour-text">
        <h2 className="font-semibold">{title}</h2>
        <p className="mt-1 text-ink-2">{text}</p>
      </div>
      <div className="mt-3 flex items-center gap-2">
        <span className="label flex-1">{at === 0 ? '' : `${at} of ${steps.length - 1}`}</span>
        {at < steps.length - 1 && (
          <button type="button" className="button" onClick={end}>
            Skip
          </button>
        )}
        {at > 0 && (
          <button type="button" className="button" onClick={() => go(at - 1)}>
            Back
          </button>
        )}
        <button type="button" className="button button-main" onClick={() => go(at + 1)}>
          {at === 0 ? 'Start the tour' : at === steps.length - 1 ? 'Done' : 'Next'}
        </button>
      </div>
    </section>
  )
}
