/** How the common coding agents are run without a person: their words for "no questions", and how they print. Pure. */
import type { FormatName } from './formats.js'

interface Preset {
  readonly command: readonly string[]
  readonly model: (name: string) => readonly string[]
  /** What must stand last. */
  readonly last?: readonly string[]
  readonly format: FormatName
}

export const presets = {
  claude: {
    command: ['claude', '-p', '--output-format', 'stream-json', '--verbose'],
    model: (name) => ['--model', name],
    format: 'claude',
  },
  codex: {
    command: ['codex', 'exec', '--json', '--skip-git-repo-check'],
    model: (name) => ['--model', name],
    last: ['-'],
    format: 'codex',
  },
  gemini: {
    command: ['gemini', '--output-format', 'json'],
    model: (name) => ['--model', name],
    format: 'gemini',
  },
  aider: {
    command: [
      'aider',
      '--yes-always',
      '--no-pretty',
      '--no-stream',
      '--no-check-update',
      '--message-file',
      '/dev/stdin',
    ],
    model: (name) => ['--model', name],
    format: 'aider',
  },
  opencode: {
    command: ['opencode', 'run', '--format', 'json'],
    model: (name) => ['--model', name],
    format: 'opencode',
  },
} as const satisfies Record<string, Preset>

export type PresetName = keyof typeof presets
export const presetNames = Object.keys(presets) as PresetName[]

export interface Recipe {
  readonly preset?: PresetName | undefined
  /** One line for /bin/sh, or a program with its words; in place of the preset's own. */
  readonly command?: string | readonly string[] | undefined
  readonly model?: string | undefined
  readonly args?: readonly string[] | undefined
  readonly output?: 'text' | 'json' | undefined
}

/** What is run, and how its output is read. */
export function recipe(given: Recipe): { readonly command: readonly string[]; readonly format: FormatName } {
  const preset: Preset | undefined = given.preset === undefined ? undefined : presets[given.preset]
  const format = given.output ?? preset?.format ?? 'text'
  const args = given.args ?? []
  if (given.command !== undefined) {
    const words = typeof given.command === 'string' ? ['/bin/sh', '-c', given.command, 'sh'] : given.command
    return { command: [...words, ...args], format }
  }
  const model = preset === undefined || given.model === undefined ? [] : preset.model(given.model)
  return { command: [...(preset?.command ?? []), ...model, ...args, ...(preset?.last ?? [])], format }
}
