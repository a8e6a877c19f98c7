/** Starts a turn from the page: a new one, or an ended one again. Both open the page of the new turn. */
import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { startTurn } from '../../api/mutations.js'
import { agentsQuery } from '../../api/queries.js'
import type { NewTurn, TurnDetail } from '../../api/types.js'
import { oneLine, textOf } from '../../model/text.js'
import { random } from '../../ports/random.js'
import { Dialog } from '../../parts/dialog.js'
import { AgentField, FormEnd, InstructionField } from '../../parts/work-fields.js'

interface Start {
  readonly agent: string
  readonly what: NewTurn
}

/** One idempotency key per form: a request that is sent again after a lost response starts no second turn. */
function useStart(project: string) {
  const navigate = useNavigate()
  const [key] = useState(() => random.id())
  return useMutation({
    mutationFn: ({ agent, what }: Start) => startTurn(project, agent, what, key),
    onSuccess: ({ agent_turn_id: turn }) => navigate({ to: '/p/$project/turns/$turn', params: { project, turn } }),
  })
}

interface RunTurnProps {
  readonly project: string
  /** The agent that is chosen at first. */
  readonly agent?: string | undefined
}

interface RunFormProps extends RunTurnProps {
  readonly title: string
  readonly instruction?: string
  /** The new turn belongs to this session. */
  readonly session?: string | null
  readonly close: () => void
}

export function RunTurn({ project, agent }: RunTurnProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <button type="button" className="button" aria-keyshortcuts="n" onClick={() => setOpen(true)}>
        Run a turn…
      </button>
      {isOpen && <RunForm title="Run a turn" project={project} agent={agent} close={() => setOpen(false)} />}
    </>
  )
}

function RunForm({ title, project, agent: first, instruction: before = '', session = null, close }: RunFormProps) {
  const agents = useQuery(agentsQuery(project))
  const [agent, setAgent] = useState<string>()
  const [instruction, setInstruction] = useState(before)
  const start = useStart(project)
  const known = agents.data?.agents ?? []
  // The search of the page may be a part of a name.
  const chosen = agent ?? known.find(({ agent_id: id }) => id === first)?.agent_id ?? ''
  return (
    <Dialog title={title} name={title} close={close}>
      <form
        className="space-y-3"
        onSubmit={(event) => {
          event.preventDefault()
          start.mutate({ agent: chosen, what: { instruction, ...(session === null ? {} : { session_id: session }) } })
        }}
      >
        <AgentField agents={known} value={chosen} change={setAgent} />
        <InstructionField
          value={instruction}
          max={1_000_000}
          required
          help="What the agent must do."
          change={setInstruction}
        />
        <FormEnd error={start.error} close={close} name="Run" isBusy={start.isPending} />
      </form>
    </Dialog>
  )
}

/** Runs the same instruction again, which reads the same context box, or another version of it. */
export function RunAgain({ project, turn }: { readonly project: string; readonly turn: TurnDetail }) {
  const start = useStart(project)
  const [isEditing, setEditing] = useState(false)
  const { context_box_id: box, session_id: session, agent_id: agent } = turn
  if (box === null) return null
  const what = { context_box_id: box, ...(session === null ? {} : { session_id: session }) }
  const instruction = turn.context_cards.find((card) => card.type === 'task.instruction')
  return (
    <>
      <button
        type="button"
        className="button"
        aria-keyshortcuts="r"
        disabled={start.isPending}
        onClick={() => start.mutate({ agent, what })}
        title="A new turn with the same instruction"
      >
        Run again
      </button>
      {instruction !== undefined && (
        <button
          type="button"
          className="button"
          aria-keyshortcuts="e"
          onClick={() => setEditing(true)}
          title="A new turn with another instruction or agent"
        >
          Edit and run…
        </button>
      )}
      {isEditing && (
        <RunForm
          title="Edit and run"
          project={project}
          agent={agent}
          instruction={textOf(instruction?.content)}
          session={session}
          close={() => setEditing(false)}
        />
      )}
      <span role="alert" className="text-sm text-bad">
        {start.error === null ? '' : oneLine(start.error.message, 200)}
      </span>
    </>
  )
}
