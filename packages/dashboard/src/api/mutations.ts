/** What a person can change from the pages. Each is one request; the caller refetches to see the effect. */
import { random } from '../ports/random.js'
import { ask, Problem } from './client.js'
import { session } from './session.js'
import type { TaskAction, ToolAnswer } from './types.js'

export const stopTurn = (project: string, turn: string, reason: string) =>
  ask('POST /projects/:project/turns/:turn/stop', { params: { project, turn }, body: { reason } })

/** A repeated or late answer is acknowledged as `ignored`. */
export const sendAnswer = (project: string, call: string, answer: ToolAnswer) =>
  ask('POST /projects/:project/tool-calls/:call/result', {
    params: { project, call },
    body: answer,
    headers: { 'idempotency-key': random.id() },
  })

/** Ends the cookie session and removes the key of this tab. */
export async function signOut(): Promise<void> {
  await ask('DELETE /logins', {}).catch((error: unknown) => {
    // A server without sessions has nothing to end.
    if (!(error instanceof Problem)) throw error
  })
  session.refuse()
}

export const moveTask = (task: string, action: TaskAction, reason: string) =>
  ask('PATCH /board/tasks/:task', { params: { task }, body: { action, ...(reason === '' ? {} : { reason }) } })
