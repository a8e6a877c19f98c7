/** Counts what waits for a person, for the badge beside the page name. */
import { useQuery } from '@tanstack/react-query'
import { approvalsQuery, boardQuery, questionsQuery } from '../api/queries.js'
import { needsPerson } from '../model/board.js'

/** Undefined while loading. */
export function useNeeds(project: string): number | undefined {
  const questions = useQuery({ ...questionsQuery(project), select: (data) => data.questions.length })
  const approvals = useQuery({ ...approvalsQuery(project), select: (data) => data.approvals.length })
  const tasks = useQuery({ ...boardQuery, select: (board) => board.tasks.filter(needsPerson).length })
  if (questions.isPending || approvals.isPending || tasks.isPending) return undefined
  return (questions.data ?? 0) + (approvals.data ?? 0) + (tasks.data ?? 0)
}
