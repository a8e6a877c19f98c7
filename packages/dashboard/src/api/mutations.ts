/** What a person can change from the pages. Each is one request; the caller refetches to see the effect. */
import { random } from '../ports/random.js'
import { ask, Problem } from './client.js'
import type { TaskDetail } from './board-types.js'
import { session } from './session.js'
import type { Answer } from './types.js'

const encode = encodeURIComponent

export const stopTurn = (project: string, turn: string, reason: string) =>
  ask<{ status: string }>(`/projects/${encode(project)}/turns/${encode(turn)}/stop`, {
    method: 'POST',
    body: { reason },
  })

/** A repeated or late answer is acknowledged as `ignored`. */
export const sendAnswer = (project: string, call: string, answer: Answer) =>
  ask<{ status?: string }>(`/projects/${encode(project)}/tool-calls/${encode(call)}/result`, {
    method: 'POST',
    body: answer,
    headers: { 'idempotency-key': random.id() },
  })

/** Ends the cookie session and removes the key of this tab. */
export async function signOut(): Promise<void> {
  await ask('/logins', { method: 'DELETE' }).catch((error: unknown) => {
    // A server without sessions has nothing to end.
    if (!(error instanceof Problem)) throw error
  })
  session.refuse()
}

export const moveTask = (task: string, action: string, reason: string) =>
  ask<TaskDetail>(`/board/tasks/${encode(task)}`, {
    method: 'PATCH',
    body: { action, ...(reason === '' ? {} : { reason }) },
  })
