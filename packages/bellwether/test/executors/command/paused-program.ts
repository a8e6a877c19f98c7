/** A turn whose stand-in pauses at points of its work, so that a test decides what happens between them. */
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import type { Kernel } from '../../../src/kernel/kernel.js'
import { killTree } from '../../../src/ports/processes/kill-tree.js'
import type { PresetName } from '../../../src/worker/executors/presets.js'
import { sessionLines, type SessionLine } from '../../support/agents/coding-agents.js'
import { until } from '../../support/until.js'
import type { CommandSetup } from '../command-setup.js'

export interface PausedProgram {
  readonly turn: string
  /** Its working folder. */
  readonly folder: string
  readonly reached: (point: string) => Promise<unknown>
  readonly release: (point: string) => Promise<void>
  /** From now on, this call of the worker never comes back. */
  readonly block: (verb: keyof Kernel) => void
  /** Kills the worker and its program. */
  readonly die: () => Promise<void>
  /** The lines of the sessions in its folder. */
  readonly lines: () => SessionLine[]
}

/** What lets the stand-ins write files when no person can confirm it. */
export const mayWrite: Readonly<Record<PresetName, readonly string[]>> = {
  claude: ['--permission-mode', 'acceptEdits'],
  codex: ['--sandbox', 'workspace-write'],
  gemini: ['--approval-mode', 'auto_edit'],
  aider: [],
  opencode: [],
}

export const sessionOf = async (b: CommandSetup, turn: string) =>
  (
    await b.t.all<{ program_session_id: string; answered: boolean; resumed: boolean; messages_seen: number }>(
      'select * from state.program_sessions where agent_turn_id = $1',
      turn,
    )
  )[0]

let folders = 0

/** Resolves when the program has reached the first point and its session is stored. `dies`: its worker can die. */
export async function pausedProgram(
  b: CommandSetup,
  preset: PresetName,
  points: readonly string[],
  dies = false,
): Promise<PausedProgram> {
  const cwd = `work/paused-${(folders += 1)}`
  const folder = join(b.folder, cwd)
  await mkdir(folder)
  const gate = (point: string) => join(folder, `gate-${point}`)
  const never = () => new Promise<never>(() => undefined)
  const dead = new Set<string>()
  // After its death, a worker's calls never come back. Before it, single calls may be blocked.
  const kernel = Object.fromEntries(
    Object.entries(b.t.kernel).map(([name, verb]) => [
      name,
      typeof verb === 'function'
        ? (...values: never[]) =>
            dead.has(name) || dead.has('all') ? never() : (verb as (...all: never[]) => unknown)(...values)
        : verb,
    ]),
  )
  const orders = points.map((point) => `stand-in: pause ${point} ${gate(point)}`)
  const turn = await b.begin(
    { preset, cwd, args: mayWrite[preset] },
    { instruction: `Begin.\n${orders.join('\n')}` },
    undefined,
    dies ? b.mortal(kernel) : undefined,
  )
  const reached = (point: string) =>
    until(`the program has reached point ${point}`, async () => existsSync(`${gate(point)}.reached`) || undefined)
  await reached(points[0]!)
  await until('the session is stored', async () => (await sessionOf(b, turn)) || undefined)
  return {
    turn,
    folder,
    reached,
    block: (verb) => void dead.add(verb),
    async die() {
      dead.add('all')
      // As the guardian of the dead worker does.
      await killTree({ clock: systemClock, graceMs: 0, wanted: (token) => token.includes(turn) })
    },
    release: (point) => writeFile(gate(point), ''),
    lines: () => sessionLines(preset, folder),
  }
}
