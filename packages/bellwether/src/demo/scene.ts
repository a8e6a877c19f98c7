/**
 * What the demo and chaos both stand on: the place with its project folder, the stage, and the house, not yet started. Always:
 * whatever was opened here is closed by `close`, the newest first, also when the opening itself fails half way.
 */
import { truncate } from 'node:fs/promises'
import { type Log, systemClock, systemRandom } from '@bellwether/base'
import { openLog } from '../runtime/logger.js'
import { openHouse, type House } from './house.js'
import { openPlace, writeProject, type Place } from './place.js'
import type { DemoModel } from './real-model.js'
import { openProps, type PropsOptions } from './stage/props.js'
import { openStage } from './stage/server.js'

export interface SceneOptions extends Pick<PropsOptions, 'mood' | 'repeat'> {
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** What node runs to be this program again. */
  readonly program: readonly string[]
  readonly model: DemoModel
  /** Ends the wait for a house that is still starting. */
  readonly signal: AbortSignal
  say(sentence: string): void
}

export interface Scene {
  readonly place: Place
  readonly house: House
  readonly log: Log
  /** To be done at the end, before what was opened earlier is closed. */
  readonly undo: (() => Promise<unknown>)[]
  close(): Promise<void>
}

export async function openScene(options: SceneOptions): Promise<Scene> {
  const place = await openPlace(options.dataDir, (sentence) => options.say(sentence))
  const log = openLog('demo', place.logFile)
  const undo: (() => Promise<unknown>)[] = [() => place.lock.release()]
  const close = async () => {
    for (const step of undo.toReversed()) {
      await step().catch((error: unknown) => log.error({ err: error }, 'something could not be stopped'))
    }
  }
  try {
    await truncate(place.logFile) // the folder is ours only now; each line is appended, so the log goes on from here
    await writeProject(place.project, options.model)
    const common = { clock: systemClock, random: systemRandom }
    const stage = await openStage({ ...common, log, tool: openProps({ ...common, ...options, folder: place.project }) })
    undo.push(() => stage.close())
    const env = { ...withoutSettings(options.env), ...stage.env }
    const { program, signal } = options
    return { place, house: openHouse({ place, program, env, clock: systemClock, log, signal }), log, undo, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** The demo plays with its own settings, not with the folder's owner's. */
function withoutSettings(env: SceneOptions['env']): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('BELLWETHER')))
}
