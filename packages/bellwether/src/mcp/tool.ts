/** The interface of an MCP tool: a schema of its input, and a function that calls the server and reports the result. */
import type { Clock } from '@bellwether/base'
import type { z } from 'zod'
import type { Client } from '../client/client.js'
import type { Ids } from '../ports/ids.js'

export interface Call {
  readonly client: Client
  readonly clock: Clock
  readonly ids: Ids
  /** Aborts when the MCP client cancels the call. */
  readonly signal: AbortSignal
  /** Sends a progress message to the MCP client. */
  progress(message: string): void
}

export interface ToolReport {
  /** Written by Bellwether: statuses, ids, the next step. Never text of an agent or a file. */
  readonly summary: string
  /** Written by agents, people or files: it is marked as data. */
  readonly data?: unknown
}

export interface Tool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly input: z.ZodObject
  /** Whether it changes nothing. */
  readonly readOnly: boolean
  run(input: unknown, call: Call): Promise<ToolReport>
}

interface Definition<Shape extends z.ZodObject> extends Omit<Tool, 'input' | 'run'> {
  readonly input: Shape
  readonly run: (input: z.output<Shape>, call: Call) => Promise<ToolReport>
}

export function tool<Shape extends z.ZodObject>({ run, ...rest }: Definition<Shape>): Tool {
  return { ...rest, run: (input, call) => run(rest.input.parse(input), call) }
}
