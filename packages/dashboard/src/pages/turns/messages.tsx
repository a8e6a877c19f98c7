/** The messages to a turn, delivered or waiting, with a field for the next one; after its end, a field for a follow-up turn. */
import { messageMaxChars } from '@bellwether/protocol/vocabulary'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState, type ReactNode } from 'react'
import { continueTurn, sayToTurn } from '../../api/mutations.js'
import type { TurnDetail } from '../../api/types.js'
import { oneLine } from '../../model/text.js'
import { random } from '../../ports/random.js'
import { Line } from '../../parts/untrusted-text.js'

const instructionMaxChars = 1_000_000

export function Messages({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  const isOver = turn.ended_at !== null
  return (
    <div className="space-y-2 px-3 py-2 text-sm">
      <ul aria-label="Messages to this turn">
        {turn.messages.map(({ seq, sender, text, delivered_at: at }) => (
          <li key={seq} className="py-0.5">
            <span className="text-ink-3">
              <bdi>{oneLine(sender, 80)}</bdi>, {at === null ? (isOver ? 'not delivered' : 'waiting') : 'delivered'}
            </span>
            <br />
            <Line text={text} most={500} />
          </li>
        ))}
      </ul>
      {isOver ? (
        <FollowUp project={project} turn={turn.agent_turn_id} />
      ) : (
        <Say project={project} turn={turn.agent_turn_id} />
      )}
    </div>
  )
}

interface FormProps {
  readonly project: string
  readonly turn: string
}

function Say({ project, turn }: FormProps) {
  const [text, setText] = useState('')
  const [isNow, setNow] = useState(false)
  // A request that is sent again after a lost response stores no second message.
  const [id, setId] = useState(() => random.id())
  const client = useQueryClient()
  const say = useMutation({
    mutationFn: () => sayToTurn(project, turn, { text, now: isNow, message_id: id }),
    onSuccess: () => {
      setText('')
      setId(random.id())
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['turn', project, turn] }),
  })
  return (
    <TextForm
      label="Message to the agent"
      button="Send"
      text={text}
      max={messageMaxChars}
      change={setText}
      error={say.error}
      isBusy={say.isPending}
      send={() => say.mutate()}
    >
      <label className="flex items-center gap-1 text-ink-2">
        <input type="checkbox" checked={isNow} onChange={(event) => setNow(event.target.checked)} />
        interrupt its program
      </label>
    </TextForm>
  )
}

function FollowUp({ project, turn }: FormProps) {
  const [text, setText] = useState('')
  const [key] = useState(() => random.id())
  const navigate = useNavigate()
  const start = useMutation({
    mutationFn: () => continueTurn(project, turn, text, key),
    onSuccess: ({ agent_turn_id: next }) =>
      navigate({ to: '/p/$project/turns/$turn', params: { project, turn: next } }),
  })
  return (
    <TextForm
      label="Follow-up in the same session"
      button="Continue"
      text={text}
      max={instructionMaxChars}
      change={setText}
      error={start.error}
      isBusy={start.isPending}
      send={() => start.mutate()}
    />
  )
}

interface TextFormProps {
  readonly label: string
  readonly button: string
  readonly text: string
  readonly max: number
  readonly change: (text: string) => void
  readonly error: Error | null
  readonly isBusy: boolean
  readonly send: () => void
  readonly children?: ReactNode
}

function TextForm({ label, button, text, max, change, error, isBusy, send, children }: TextFormProps) {
  return (
    <form
      className="space-y-1"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <textarea
        className="field w-full"
        rows={2}
        aria-keyshortcuts="m"
        aria-label={label}
        placeholder={label}
        value={text}
        maxLength={max}
        required
        onChange={(event) => change(event.target.value)}
      />
      <div className="flex items-center justify-between gap-2">
        {children ?? <span />}
        <button type="submit" className="button" disabled={isBusy || text.trim() === ''}>
          {button}
        </button>
      </div>
      <p role="alert" className="text-sm text-bad">
        {error === null ? '' : oneLine(error.message, 200)}
      </p>
    </form>
  )
}
