/**
 * The fake HTTP tools: most answer, one writes a file of the project, one never answers, and one misbehaves on demand. Files
 * are written only below the project's `columns` folder.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Clock, Random } from '@bellwether/base'
import { tools } from '../actors.js'

export interface ToolRequest {
  readonly args: Readonly<Record<string, unknown>>
  /** The same for every try of one call. */
  readonly toolCallId: string
  /** Aborts when the caller disconnects. */
  readonly signal: AbortSignal
}

/** `undefined`: the tool never answers. */
type ToolResponse = { readonly status: number; readonly body: unknown } | undefined

export interface FakeToolsOptions {
  readonly folder: string
  readonly clock: Clock
  readonly random: Random
  /** How the juggler's tool handles the next call. */
  readonly behaviour: () => Behaviour
  /** Called when the juggler's tool must report a result a second time, bypassing its host. */
  readonly reportAgain: (toolCallId: string) => void
}

export type Behaviour = 'succeeds' | 'hangs' | 'slow' | 'fails' | 'twice'

const slowMs = 1_500

export type FakeTool = (name: string, request: ToolRequest) => Promise<ToolResponse>

export function openFakeTools(options: FakeToolsOptions): FakeTool {
  const { clock, random } = options
  const ok = (body: unknown): ToolResponse => ({ status: 200, body })
  const handlers: Readonly<Record<string, (request: ToolRequest) => Promise<ToolResponse>>> = {
    async [tools.lookUp]({ signal }) {
      await clock.sleep(100 + random.next() * 400, signal)
      return ok({ answer: 42 })
    },
    async [tools.save]({ args }) {
      const path = join('columns', basename(String(args['path'])))
      await mkdir(join(options.folder, 'columns'), { recursive: true })
      await writeFile(join(options.folder, path), `${String(args['text'])}\n`)
      return ok({ saved: path })
    },
    [tools.lap]: async ({ args }) => ok({ lap: args['lap'] }),
    [tools.barometer]: async () => undefined,
    async [tools.juggle]({ signal, toolCallId }) {
      const behaviour = options.behaviour()
      if (behaviour === 'hangs') return undefined
      if (behaviour === 'fails') return { status: 503, body: { error: 'dropped the ball' } }
      if (behaviour === 'slow') await clock.sleep(slowMs, signal)
      if (behaviour === 'twice') options.reportAgain(toolCallId)
      return ok({ caught: true })
    },
  }
  return async (name, request) => {
    const handler = Object.hasOwn(handlers, name) ? handlers[name] : undefined
    return handler === undefined ? { status: 404, body: { error: `unknown tool "${name}"` } } : handler(request)
  }
}
