/** The open questions of a project as the HTTP API lists them, optionally of one person. */
import type { QuestionRow } from '@bellwether/protocol/http'
import { readQuestions } from '../../../src/kernel/reads/waits.js'
import type { Queryable } from '../../../src/ports/database/database.js'

export type OpenQuestion = Omit<QuestionRow, 'asked_at' | 'deadline'> & {
  readonly asked_at: Date
  readonly deadline: Date | null
  readonly arguments: Readonly<Record<string, unknown>>
}

const questionsMax = 500

export async function openQuestions(db: Queryable, projectId: string, to?: string): Promise<OpenQuestion[]> {
  const questions = (await readQuestions(db, projectId, questionsMax)) as OpenQuestion[]
  return questions.filter((question) => to === undefined || question.arguments['to'] === to)
}
