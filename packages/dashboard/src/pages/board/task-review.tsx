/** Why the last run of a task was not accepted, its diff with comments for the next run, and what a person can do. */
import { useMemo, useState } from 'react'
import type { LineComment, TaskDetail } from '../../api/types.js'
import type { Comments } from './diff-view.js'
import { takesComments, TaskMoves } from './task-moves.js'
import { TaskReasons } from './task-reasons.js'

// The server's limit.
const commentsMax = 50

export function TaskReview({ task }: { readonly task: TaskDetail }) {
  const [all, setAll] = useState<readonly LineComment[]>([])
  const comments: Comments = useMemo(
    () => ({
      all,
      add: (comment) => setAll((before) => [...before, comment].slice(0, commentsMax)),
      remove: (comment) => setAll((before) => before.filter((one) => one !== comment)),
    }),
    [all],
  )
  const mayComment = task.moves.some(({ action }) => takesComments(action))
  return (
    <>
      <TaskReasons task={task} comments={mayComment ? comments : undefined} />
      <TaskMoves task={task} comments={all} sent={() => setAll([])} />
    </>
  )
}
