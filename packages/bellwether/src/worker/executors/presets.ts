/** How the common coding agents run unattended: their command lines and output formats. Pure. */
import type { FormatName } from './formats.js'

interface Preset {
  readonly command: readonly string[]
  readonly model: (name: string) => readonly string[]
  /** Arguments that must come last. */
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
  gemini: { command: ['gemini', '--output-format', 'json'], model: (name) => ['--model', name], format: 'gemini' },
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
  /** One line for /bin/sh, or a program with its arguments; replaces the preset's command. */
  readonly command?: string | readonly string[] | undefined
  readonly model?: string | undefined
  readonly args?: readonly string[] | undefined
  readonly output?: 'text' | 'json' | undefined
}

/** The command line to run, and the format of its output. */
export function commandLine(recipe: Recipe): { readonly command: readonly string[]; readonly format: FormatName } {
  const preset: Preset | undefined = recipe.preset === undefined ? undefined : presets[recipe.preset]
  const format = recipe.output ?? preset?.format ?? 'text'
  const args = recipe.args ?? []
  if (recipe.command !== undefined) {
    const program = typeof recipe.command === 'string' ? ['/bin/sh', '-c', recipe.command, 'sh'] : recipe.command
    return { command: [...program, ...args], format }
  }
  const model = preset === undefined || recipe.model === undefined ? [] : preset.model(recipe.model)
  return { command: [...(preset?.command ?? []), ...model, ...args, ...(preset?.last ?? [])], format }
}
