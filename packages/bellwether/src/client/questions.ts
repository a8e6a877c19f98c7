/** Answers a question of an agent to a person. An answer that is not one of the choices is rejected before it is sent. */
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { ResponseOf, Question } from '@bellwether/protocol/http'
import type { Client } from './client.js'

export type Reply = { readonly answer: unknown } | { readonly declined: string }

/** The largest page of the server. */
export const questionsMax = 500

/** The arguments are written by an agent: anything may be in them. */
export const argumentsOf = (question: Question | undefined) =>
  (question?.arguments ?? {}) as Readonly<Record<string, unknown>>

/** The status is `reported`, or `ignored` if the turn no longer waits for the answer. */
export async function answerQuestion(
  client: Client,
  id: string,
  reply: Reply,
  signal?: AbortSignal,
): Promise<ResponseOf<'POST /projects/:project/tool-calls/:call/result'>> {
  const { questions } = await client.ask('GET /projects/:project/questions', { query: { limit: questionsMax }, signal })
  const question = questions.find((one) => one.tool_call_id === id)
  // If the page is full, the question may be on a later one, and the server decides.
  if (question === undefined && questions.length < questionsMax)
    throw new Terminal(`Project ${client.project} has no open question ${JSON.stringify(id)}`, {
      code: 'unknown_question',
      hint: 'it was answered, its time ran out, or its turn ended; `bellwether questions` lists the open ones',
    })
  if ('answer' in reply) mustBeChoice(argumentsOf(question)['choices'], reply.answer)
  return client.ask('POST /projects/:project/tool-calls/:call/result', {
    params: { call: id },
    body:
      'answer' in reply
        ? { status: 'success', result: reply.answer }
        : { status: 'canceled', error: { code: 'declined', message: reply.declined } },
    signal,
  })
}

function mustBeChoice(choices: unknown, answer: unknown): void {
  if (!Array.isArray(choices) || choices.length === 0 || typeof answer !== 'string') return
  const same = (choice: unknown) => String(choice).toLowerCase() === answer.trim().toLowerCase()
  if (choices.some(same)) return
  throw new InvalidInput(`${JSON.stringify(answer.slice(0, 100))} is not one of the choices`, {
    code: 'not_a_choice',
    hint: `answer with one of: ${choices.map(String).join(', ')}`,
  })
}
