/**
 * What every act of the play has in hand, and the patience with which it looks. Always: each turn's id is kept, to be asked about at
 * the end; an act that waits in vain says so and goes on, so that the audit shows what is stuck.
 */
import type { Clock } from '@bellwether/base'
import type { Ids } from '../ports/ids.js'
import { projectId } from './cast.js'
import type { Client } from './client.js'

export interface Play {
  readonly client: Client
  readonly clock: Clock
  readonly ids: Ids
  readonly signal: AbortSignal
  readonly turnIds: Set<string>
  readonly taskIds: Set<string>
  readonly faults: Record<string, number>
  /** Acts that could not be played, and why. */
  readonly broken: string[]
  say(sentence: string): void
}

export interface TurnView {
  readonly agent_turn_id: string
  readonly ended_at: string | null
  readonly outcome: string | null
  readonly claimed_by: string | null
  readonly steps: readonly { readonly phase: string }[]
  readonly children: readonly { readonly status: string | null }[]
  readonly deliverable: { readonly content: { readonly text?: string } } | null
}

export interface TaskView {
  readonly taskId: string
  readonly title: string
  readonly status: string
  readonly assignee: string | null
  readonly reason: string | null
  readonly runs: readonly { readonly agent: string; readonly reasonCode?: string }[]
  readonly fields: {
    readonly spawn?: { readonly error?: string; readonly reasonCode?: string; readonly agent?: string }
  }
}

const lookEveryMs = 250
const actMaxMs = 40_000

export const fault = (play: Play, name: string) => {
  play.faults[name] = (play.faults[name] ?? 0) + 1
}

/** `maxTokens`: a limit that the kernel holds, through every takeover. */
export async function enqueue(play: Play, agentId: string, instruction: string, maxTokens?: number): Promise<string> {
  const path = `/projects/${projectId}/agents/${agentId}/turns`
  const body = { instruction, ...(maxTokens === undefined ? {} : { budget: { max_tokens: maxTokens } }) }
  const turn = await play.client.insist<{ agent_turn_id: string }>('POST', path, body, play.ids.next())
  play.turnIds.add(turn.agent_turn_id)
  return turn.agent_turn_id
}

export const turnOf = (play: Play, turnId: string) =>
  play.client.insist<TurnView>('GET', `/projects/${projectId}/turns/${turnId}`)

export const stopTurn = (play: Play, turnId: string, reason: string) =>
  play.client.insist('POST', `/projects/${projectId}/turns/${turnId}/stop`, { reason })

/** Its words, for the narration. */
export const textOf = (turn: TurnView | undefined) => turn?.deliverable?.content.text ?? 'nothing'

export async function ended(play: Play, what: string, turnId: string): Promise<TurnView | undefined> {
  return sees(play, what, async () => {
    const turn = await turnOf(play, turnId)
    return turn.ended_at === null ? undefined : turn
  })
}

export async function addTask(play: Play, task: object): Promise<string> {
  const { taskId } = await play.client.ask<TaskView>('POST', '/board/tasks', task)
  play.taskIds.add(taskId)
  return taskId
}

export const taskOf = (play: Play, taskId: string) => play.client.insist<TaskView>('GET', `/board/tasks/${taskId}`)

/** Waits for what is about to be true; undefined, and a sentence, when it does not come. */
export async function sees<T>(play: Play, what: string, ask: () => Promise<T | undefined>): Promise<T | undefined> {
  const untilMs = play.clock.monotonicMs() + actMaxMs
  while (!play.signal.aborted) {
    const found = await ask()
    if (found !== undefined) return found
    if (play.clock.monotonicMs() > untilMs) {
      play.say(`waited ${actMaxMs / 1_000} s in vain: ${what}`)
      play.broken.push(`not seen: ${what}`)
      return undefined
    }
    await play.clock.sleep(lookEveryMs, play.signal)
  }
  return undefined
}
