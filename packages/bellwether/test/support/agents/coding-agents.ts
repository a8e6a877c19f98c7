/** The folder of the stand-ins of coding agents, for `PATH`: programs named claude, codex, gemini, aider and opencode; and what they wrote. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { presetNames, type PresetName } from '../../../src/worker/executors/presets.js'

export const codingAgentPath = fileURLToPath(new URL('../../../../../examples/coding-agent', import.meta.url))

export interface CodingAgents {
  readonly names: readonly PresetName[]
  /** The search path on which they are found. */
  readonly path: string
  /** Whether this is the real program. It does not follow the orders of a stand-in. */
  readonly isReal: boolean
}

/** Puts programs on the search path for the tests of a file, by default the stand-ins. */
export function onPath(path = codingAgents({ PATH: process.env['PATH'] }).path): void {
  const before = process.env['PATH']
  beforeAll(() => void (process.env['PATH'] = path))
  afterAll(() => void (process.env['PATH'] = before))
}

/** Calls the function with one more folder at the front of the search path. */
export async function withFolderOnPath<T>(folder: string, act: () => Promise<T>): Promise<T> {
  const before = process.env['PATH']
  process.env['PATH'] = `${folder}${delimiter}${before}`
  return act().finally(() => void (process.env['PATH'] = before))
}

/** The stand-ins, or the real program that BELLWETHER_REAL_CLI names. */
export function codingAgents(env: Readonly<Record<string, string | undefined>> = process.env): CodingAgents {
  const { PATH: path = '', BELLWETHER_REAL_CLI: real } = env
  if (real === undefined) return { names: presetNames, path: `${codingAgentPath}${delimiter}${path}`, isReal: false }
  const name = presetNames.find((one) => one === real)
  if (name === undefined)
    throw new Error(`BELLWETHER_REAL_CLI must be one of ${presetNames.join(', ')} (got "${real}")`)
  if (!path.split(delimiter).some((folder) => existsSync(join(folder, name))))
    throw new Error(
      `BELLWETHER_REAL_CLI=${name}: no program "${name}" on PATH. Install it and sign in, or unset the variable`,
    )
  return { names: [name], path, isReal: true }
}

const { sessionFolder } = (await import(
  new URL('../../../../../examples/coding-agent/sessions.mjs', import.meta.url).href
)) as { sessionFolder: (name: string, cwd: string) => string }

export interface SessionLine {
  readonly type: string
  readonly call?: number
  readonly usage?: Readonly<Record<string, number>>
  readonly text?: string
  readonly payload?: { readonly cwd?: string }
}

/** The lines of all sessions of a stand-in in this working directory. */
export function sessionLines(name: string, cwd: string): SessionLine[] {
  const codexHome = name === 'codex' ? process.env['CODEX_HOME'] : undefined
  const place = codexHome === undefined ? sessionFolder(name, cwd) : join(codexHome, 'sessions')
  if (!existsSync(place)) return []
  const files = readdirSync(place, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.jsonl$|^\.aider\.chat[^/]*$/.test(file),
  )
  return files.flatMap((file) => {
    const lines = readFileSync(join(place, file), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as SessionLine)
    // Below CODEX_HOME, the sessions of all folders lie together.
    return lines.some(({ payload }) => payload?.cwd !== undefined && payload.cwd !== cwd) ? [] : lines
  })
}

/** How often each call of the model was made, in all sessions. The last call is made again by a run that only repeats the answer. */
export const callsOf = (name: string, cwd: string): number[] =>
  [0, 1, 2, 3, 4, 5].map((call) => sessionLines(name, cwd).filter((line) => line.call === call).length)

/** The tokens that all calls of the model used. */
export const tokensOf = (name: string, cwd: string): number =>
  sessionLines(name, cwd)
    .flatMap(({ usage = {} }) => Object.values(usage))
    .reduce((sum, count) => sum + count, 0)

export const promptsOf = (name: string, cwd: string): string[] =>
  sessionLines(name, cwd).flatMap(({ type, text }) => (type === 'prompt' ? [text ?? ''] : []))
