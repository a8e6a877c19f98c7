/** The open questions of a project as the HTTP API lists them, optionally of one person. */
import { readQuestions, type Question } from '../../src/kernel/reads/waits.js'
import type { Queryable } from '../../src/ports/database/database.js'

export type OpenQuestion = Question & { readonly arguments: Readonly<Record<string, unknown>> }

const questionsMax = 500

export async function openQuestions(db: Queryable, projectId: string, to?: string): Promise<OpenQuestion[]> {
  const questions = (await readQuestions(db, projectId, questionsMax)) as OpenQuestion[]
  return questions.filter((question) => to === undefined || question.arguments['to'] === to)
}
