/** What agents ask people, and the answers. Always: an answer that is none of the choices is refused before it is sent. */
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { Client } from './client.js'

export interface Question {
  readonly tool_call_id: string
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly asked_at: string
  readonly deadline: string | null
  /** As an agent wrote them. */
  readonly arguments: Readonly<Record<string, unknown>>
}

export type Reply = { readonly answer: unknown } | { readonly declined: string }

const questionsMax = 500

export async function readQuestions(client: Client, limit = questionsMax, signal?: AbortSignal): Promise<Question[]> {
  const asking = signal === undefined ? {} : { signal }
  const { questions } = await client.ask<{ readonly questions: readonly Partial<Question>[] }>(
    'GET',
    client.of(`/questions?limit=${limit}`),
    asking,
  )
  return questions.map((one) => ({ ...one, arguments: one.arguments ?? {} }) as Question)
}

/** `reported`: it was taken. `ignored`: nobody waits for it any more. */
export async function answerQuestion(
  client: Client,
  id: string,
  reply: Reply,
  signal?: AbortSignal,
): Promise<{ readonly status: string }> {
  const open = await readQuestions(client, questionsMax, signal)
  const question = open.find((one) => one.tool_call_id === id)
  // Beyond a full page it may still be there: the server knows.
  if (question === undefined && open.length < questionsMax)
    throw new Terminal(`no question ${id} waits for an answer in project ${client.project}`, {
      code: 'unknown_question',
      hint: 'it was answered, it ran out of time, or its turn ended; bellwether questions lists those that wait',
    })
  if ('answer' in reply) mustFit(question, reply.answer)
  const body =
    'answer' in reply
      ? { status: 'success', result: reply.answer }
      : { status: 'canceled', error: { code: 'declined', message: reply.declined } }
  const path = client.of(`/tool-calls/${encodeURIComponent(id)}/result`)
  return client.ask('POST', path, { body, ...(signal === undefined ? {} : { signal }) })
}

function mustFit(question: Question | undefined, answer: unknown): void {
  const choices = question?.arguments['choices']
  if (!Array.isArray(choices) || choices.length === 0 || typeof answer !== 'string') return
  const same = (choice: unknown) => String(choice).toLowerCase() === answer.trim().toLowerCase()
  if (choices.some(same)) return
  throw new InvalidInput(`${JSON.stringify(answer.slice(0, 100))} is none of the choices`, {
    code: 'not_a_choice',
    hint: `one of: ${choices.map(String).join(', ')}`,
  })
}
