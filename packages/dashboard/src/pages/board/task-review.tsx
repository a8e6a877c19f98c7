/** Why the last run of a task was not accepted, its diff with comments for the next run, and what a person can do. */
import { useMemo, useState } from 'react'
import type { LineComment, TaskDetail } from '../../api/types.js'
import type { Comments } from './diff-view.js'
import { takesComments, TaskMoves } from './task-moves.js'
import { TaskReasons } from './task-reasons.js'

// The server's limit.
const commentsMax = 50

/** Comments that a person keeps until they are sent. */
export function useComments(): Comments & { readonly clear: () => void } {
  const [all, setAll] = useState<readonly LineComment[]>([])
  return useMemo(
    () => ({
      all,
      add: (comment) => setAll((before) => [...before, comment].slice(0, commentsMax)),
      remove: (comment) => setAll((before) => before.filter((one) => one !== comment)),
      clear: () => setAll([]),
    }),
    [all],
  )
}

export function TaskReview({ task, hasKeys = false }: { readonly task: TaskDetail; readonly hasKeys?: boolean }) {
  const comments = useComments()
  const mayComment = task.moves.some(({ action }) => takesComments(action))
  return (
    <>
      <TaskReasons task={task} comments={mayComment ? comments : undefined} />
      <TaskMoves task={task} comments={comments.all} sent={comments.clear} hasKeys={hasKeys} />
    </>
  )
}
