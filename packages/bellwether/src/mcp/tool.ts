/** What an MCP tool of ours is: a shape for its input, and a function that asks the house and says what came of it. */
import type { Clock } from '@bellwether/base'
import type { z } from 'zod'
import type { Client } from '../client/client.js'
import type { Ids } from '../ports/ids.js'

export interface Call {
  readonly client: Client
  readonly clock: Clock
  readonly ids: Ids
  /** Fires when the caller no longer wants the answer. */
  readonly signal: AbortSignal
  /** A word for whoever waits. */
  progress(message: string): void
}

export interface Said {
  /** Ours: statuses, ids, what to do next. Nothing that an agent or a file says. */
  readonly words: string
  /** Theirs: it is fenced off and marked as data. */
  readonly data?: unknown
}

export interface Tool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly input: z.ZodObject
  /** Whether it changes nothing. */
  readonly readOnly: boolean
  run(given: unknown, call: Call): Promise<Said>
}

interface Definition<Shape extends z.ZodObject> extends Omit<Tool, 'input' | 'run'> {
  readonly input: Shape
  readonly run: (given: z.output<Shape>, call: Call) => Promise<Said>
}

export function tool<Shape extends z.ZodObject>({ run, ...rest }: Definition<Shape>): Tool {
  return { ...rest, run: (given, call) => run(rest.input.parse(given), call) }
}
