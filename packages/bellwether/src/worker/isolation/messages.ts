/** The messages between a worker and a guest: the thread or process that runs the function of one turn. Values cross as structured clones. */
import { defined } from '@bellwether/base'
import type * as protocol from '@bellwether/protocol'
import type { ToolResult } from '@bellwether/protocol/http'
import type { ClaimedTurn } from '../../kernel/verbs/turn/claim.js'
import type { NewTranscriptEntry } from '../../kernel/verbs/content/append_transcript.js'
import { FenceLost, type TurnAction, type TurnContext } from '../agent.js'
import type { FunctionSource } from './isolation.js'

/** The calls of a context that the worker executes for its guest. */
export type ContextVerb = 'hydrate' | 'record' | 'messages' | 'activity' | 'reserve' | 'commit' | 'release' | 'swapBox'

type Call = {
  [V in ContextVerb]: { readonly call: number; readonly verb: V; readonly args: Parameters<TurnContext[V]> }
}[ContextVerb]

export interface GuestRun extends FunctionSource {
  readonly turn: ClaimedTurn
  readonly results: readonly ToolResult[]
}

export type ToGuest =
  | { readonly run: GuestRun }
  | { readonly reply: number; readonly value: unknown }
  | { readonly reply: number; readonly error: PackedError }
  | { readonly abort: unknown }

export type FromGuest =
  | Call
  | { readonly say: string | NewTranscriptEntry }
  | { readonly action: TurnAction }
  | { readonly failed: PackedError }

/** An error without its class, which a structured clone would lose. */
export interface PackedError {
  readonly name: string
  readonly message: string
  readonly stack?: string | undefined
  readonly code?: string | undefined
  readonly hint?: string | undefined
}

export function packError(error: unknown): PackedError {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) }
  const { name, message, stack } = error
  const text = (key: 'code' | 'hint') => {
    const value = (error as Error & Readonly<Record<string, unknown>>)[key]
    return typeof value === 'string' ? value : undefined
  }
  return { name, message, stack, code: text('code'), hint: text('hint') }
}

/** The protocol's classes are passed in, because a guest loads them only when an error needs one. */
export type ErrorClasses = Pick<typeof protocol, 'InvalidInput' | 'Terminal' | 'Retryable'>
const classNames = ['InvalidInput', 'Terminal', 'Retryable'] as const

export const needsClass = ({ name }: PackedError) => classNames.some((className) => className === name)

export function unpackError(packed: PackedError, agentTurnId: string, classes: ErrorClasses | undefined): Error {
  const { name, message, stack, code = '', hint } = packed
  if (name === 'FenceLost') return new FenceLost(agentTurnId)
  const known = classNames.find((one) => one === name)
  const error =
    classes === undefined || known === undefined
      ? new Error(message)
      : new classes[known](message, { code, ...defined({ hint }) })
  return Object.assign(error, { name }, defined({ stack }))
}
