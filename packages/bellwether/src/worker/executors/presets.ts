/** How the common coding agents run unattended: their command lines and output formats. Pure. */
import type { CliHome } from '../../ports/processes/sandbox/home.js'
import type { FormatName } from './formats.js'

interface Preset {
  readonly command: readonly string[]
  readonly model: (name: string) => readonly string[]
  /** Arguments that must come last. */
  readonly last?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
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
    command: ['gemini', '--output-format', 'stream-json'],
    model: (name) => ['--model', name],
    // Without a terminal it exits with 55 in a folder without trust (see "Trusted Folders" in its manual); `up` has asked already. Older
    // versions do not know the flag --skip-trust.
    env: { GEMINI_CLI_TRUST_WORKSPACE: 'true' },
    format: 'gemini',
  },
  aider: {
    command: [
      'aider',
      '--yes-always',
      '--no-pretty',
      '--no-stream',
      '--no-check-update',
      // With --yes-always it says yes to these, too: change .gitignore, open a browser, and read every URL of the prompt.
      '--no-gitignore',
      '--no-show-release-notes',
      '--no-detect-urls',
      // A person commits, or the board before it merges the worktree; by default aider also commits what the person has changed.
      '--no-auto-commits',
      '--no-dirty-commits',
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

/** What each coding agent needs of the home folder in a sandbox. */
export const cliHomes: Readonly<Record<PresetName | 'none', CliHome>> = {
  claude: {
    read: ['settings.json', 'CLAUDE.md', 'agents', 'commands', 'plugins', 'rules', 'skills'].map(
      (name) => `.claude/${name}`,
    ),
    write: ['.claude/.credentials.json'],
    copy: ['.claude.json'],
    sessions: ['.claude/projects'],
  },
  codex: {
    read: ['config.toml', 'AGENTS.md', 'prompts', 'rules', 'skills'].map((name) => `.codex/${name}`),
    write: ['.codex/auth.json'],
    sessions: ['.codex/sessions'],
  },
  gemini: {
    read: ['settings.json', 'GEMINI.md', 'commands', 'extensions'].map((name) => `.gemini/${name}`),
    write: ['.gemini/oauth_creds.json'],
    copy: ['.gemini/google_accounts.json', '.gemini/installation_id'],
    sessions: ['.gemini/tmp'],
  },
  aider: { read: ['.aider.conf.yml', '.aider.model.settings.yml', '.aider.model.metadata.json'] },
  opencode: {
    read: ['.config/opencode'],
    write: ['.local/share/opencode/auth.json'],
    sessions: ['.local/share/opencode'],
  },
  none: {},
}

export interface Recipe {
  readonly preset?: PresetName | undefined
  /** One line for /bin/sh, or a program with its arguments; replaces the preset's command. */
  readonly command?: string | readonly string[] | undefined
  readonly model?: string | undefined
  readonly args?: readonly string[] | undefined
  readonly output?: 'text' | 'json' | undefined
}

/** The arguments with which a preset's program starts or resumes a session. `last` replaces the arguments that must come last. */
export interface SessionArguments {
  readonly args?: readonly string[]
  readonly last?: readonly string[]
}

interface Nested {
  readonly command: readonly string[]
  readonly isSandboxed: boolean
  readonly note?: string
}

/**
 * Codex's own sandbox cannot start inside that of Bellwether, and then codex runs no command at all. `workspace-write` is what Bellwether's sandbox
 * enforces already; with any stricter mode of its own, codex stays as it is.
 */
export function nested<One extends Nested>({ preset, command }: Recipe, inside: One): One {
  if (preset !== 'codex' || command !== undefined || !inside.isSandboxed) return inside
  const free = inside.command.map((arg, at, all) =>
    arg === 'workspace-write' && ['--sandbox', '-s'].includes(all[at - 1] ?? '')
      ? 'danger-full-access'
      : arg.replace(/^(--sandbox=|-s=?)workspace-write$/, '$1danger-full-access'),
  )
  if (free.every((arg, at) => arg === inside.command[at])) return inside
  const note =
    'codex runs with --sandbox danger-full-access instead of workspace-write: its sandbox cannot start inside that of Bellwether, which protects the same files. "network" in the agent file limits its connections.'
  return { ...inside, command: free, note }
}

/** Variables that the program of a preset needs to run unattended. */
export function presetEnvironment({ preset, command }: Recipe): Readonly<Record<string, string>> {
  const known: Preset | undefined = preset === undefined || command !== undefined ? undefined : presets[preset]
  return known?.env ?? {}
}

/** The command line to run, and the format of its output. */
export function commandLine(
  recipe: Recipe,
  session: SessionArguments = {},
): { readonly command: readonly string[]; readonly format: FormatName } {
  const preset: Preset | undefined = recipe.preset === undefined ? undefined : presets[recipe.preset]
  const format = recipe.output ?? preset?.format ?? 'text'
  const args = recipe.args ?? []
  if (recipe.command !== undefined) {
    const program = typeof recipe.command === 'string' ? ['/bin/sh', '-c', recipe.command, 'sh'] : recipe.command
    return { command: [...program, ...args], format }
  }
  const model = preset === undefined || recipe.model === undefined ? [] : preset.model(recipe.model)
  const last = session.last ?? preset?.last ?? []
  return { command: [...(preset?.command ?? []), ...model, ...args, ...(session.args ?? []), ...last], format }
}
