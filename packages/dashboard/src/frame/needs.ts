/** What waits for a person: the number, for the badge beside the page name, and which agents asked. */
import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { approvalsQuery, boardQuery, questionsQuery } from '../api/queries.js'

/** The agents that asked a person something. */
export function useAskingAgents(project: string): ReadonlySet<string> {
  const { data: questions } = useQuery(questionsQuery(project))
  const { data: approvals } = useQuery(approvalsQuery(project))
  return useMemo(
    () => new Set([...(questions?.questions ?? []), ...(approvals?.approvals ?? [])].map((one) => one.agent_id)),
    [questions, approvals],
  )
}

/** Undefined while loading, and if nothing is known to wait but not everything could be read. */
export function useNeeds(project: string): number | undefined {
  const questions = useQuery({ ...questionsQuery(project), select: (data) => data.questions.length })
  const approvals = useQuery({ ...approvalsQuery(project), select: (data) => data.approvals.length })
  const tasks = useQuery({ ...boardQuery(), select: (board) => board.needs.length })
  if (questions.isPending || approvals.isPending || tasks.isPending) return undefined
  const known = (questions.data ?? 0) + (approvals.data ?? 0) + (tasks.data ?? 0)
  const isComplete = [questions, approvals, tasks].every(({ data }) => data !== undefined)
  return known === 0 && !isComplete ? undefined : known
}
