/**
 * The stage's tools: what an HTTP tool of a project meets out there. Some answer, one writes a file of the project, one never
 * answers, and one misbehaves as it is told. Always: a file is written below the project's `columns` folder and nowhere else.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Clock, Random } from '@bellwether/base'
import { tools } from '../cast.js'

export interface Prop {
  readonly args: Readonly<Record<string, unknown>>
  /** The same for every try of one call. */
  readonly toolCallId: string
  /** Fires when the caller has hung up. */
  readonly signal: AbortSignal
}

/** `undefined`: no answer comes, ever. */
export type Played = { readonly status: number; readonly body: unknown } | undefined

export interface PropsOptions {
  readonly folder: string
  readonly clock: Clock
  readonly random: Random
  /** How the juggler's tool behaves just now. */
  readonly mood: () => Mood
  /** Told when it says a result a second time, past the host that asked. */
  readonly repeat: (toolCallId: string) => void
}

export type Mood = 'well' | 'hangs' | 'slow' | 'fails' | 'twice'

const slowMs = 1_500

export function openProps(options: PropsOptions): (name: string, prop: Prop) => Promise<Played> {
  const { clock, random } = options
  const ok = (body: unknown): Played => ({ status: 200, body })
  const props: Readonly<Record<string, (prop: Prop) => Promise<Played>>> = {
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
      const mood = options.mood()
      if (mood === 'hangs') return undefined
      if (mood === 'fails') return { status: 503, body: { error: 'dropped it' } }
      if (mood === 'slow') await clock.sleep(slowMs, signal)
      if (mood === 'twice') options.repeat(toolCallId)
      return ok({ caught: true })
    },
  }
  return async (name, prop) => {
    const play = Object.hasOwn(props, name) ? props[name] : undefined
    return play === undefined ? { status: 404, body: { error: `there is no tool ${name}` } } : play(prop)
  }
}
