/**
 * What an ended turn changed, as a diff. Comments on its lines become the reason of the task's next run, or the instruction of a follow-up of a
 * turn that belongs to no task.
 */
import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { continueTurn } from '../../api/mutations.js'
import { taskQuery, turnChangesQuery } from '../../api/queries.js'
import type { TurnDetail } from '../../api/types.js'
import { commentsText } from '../../model/diff/comments.js'
import { oneLine } from '../../model/text.js'
import { taskOfSession } from '../../model/turn.js'
import { random } from '../../ports/random.js'
import { Section } from '../../frame/page.js'
import { useOnce } from '../../parts/once.js'
import { ChangesOf } from '../board/changes-of.js'
import { TaskReview, useComments } from '../board/task-review.js'

interface Props {
  readonly project: string
  readonly turn: TurnDetail
}

export function TurnChanges({ project, turn }: Props) {
  const id = taskOfSession(turn.session_id)
  const { data: task } = useQuery({ ...taskQuery(id ?? ''), enabled: id !== undefined })
  const run = task?.runs.find((one) => one.agentTurnId === turn.agent_turn_id)
  // The board has the changes of the newest run.
  if (task !== undefined && run !== undefined && task.changes?.runId === run.runId)
    return (
      <Section title="Changes">
        <div className="space-y-3 px-3 py-2">
          <TaskReview key={task.taskId} task={task} />
        </div>
      </Section>
    )
  return turn.ended_at === null ? null : <OwnChanges project={project} turn={turn} isOfTask={id !== undefined} />
}

function OwnChanges({ project, turn, isOfTask }: Props & { readonly isOfTask: boolean }) {
  const { data: changes } = useQuery(turnChangesQuery(project, turn.agent_turn_id))
  const comments = useComments()
  if (changes === undefined || changes.files.length === 0) return null
  return (
    <Section title="Changes">
      <div className="space-y-3 px-3 py-2">
        <ChangesOf changes={changes} comments={isOfTask ? undefined : comments} />
        {!isOfTask && comments.all.length > 0 && (
          <FollowUp project={project} turn={turn.agent_turn_id} instruction={commentsText(comments.all)} />
        )}
      </div>
    </Section>
  )
}

interface FollowUpProps {
  readonly project: string
  readonly turn: string
  readonly instruction: string
}

function FollowUp({ project, turn, instruction }: FollowUpProps) {
  const [key] = useState(() => random.id())
  const navigate = useNavigate()
  const start = useMutation({
    mutationFn: () => continueTurn(project, turn, instruction, key),
    onSuccess: ({ agent_turn_id: next }) =>
      navigate({ to: '/p/$project/turns/$turn', params: { project, turn: next } }),
  })
  const once = useOnce()
  return (
    <p className="flex flex-wrap items-center gap-3">
      <button
        type="button"
        className="button button-main"
        disabled={start.isPending}
        onClick={() => once(() => start.mutateAsync())}
      >
        Continue with these comments
      </button>
      <span role="alert" className="text-sm text-bad">
        {start.error === null ? '' : oneLine(start.error.message, 200)}
      </span>
    </p>
  )
}
