/** Which coding agents this machine has, and how each of them is installed and signs in. Looks at files and variables; runs nothing. */
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import type { Environment } from '@bellwether/base'
import { presetNames, presets, type PresetName } from '../worker/executors/presets.js'

export interface CodingAgent {
  readonly install: string
  /** The variables with a key; one of them is enough. */
  readonly keys: readonly string[]
  /** The file in the home folder that its own sign-in leaves. */
  readonly login: string | undefined
  readonly signIn: string
}

export const codingAgents: Readonly<Record<PresetName, CodingAgent>> = {
  claude: {
    install: 'npm install -g @anthropic-ai/claude-code',
    keys: ['ANTHROPIC_API_KEY'],
    login: '.claude/.credentials.json',
    signIn: 'claude',
  },
  codex: {
    install: 'npm install -g @openai/codex',
    // `codex exec` does not read OPENAI_API_KEY (read_codex_api_key_from_env in its codex-rs/login).
    keys: ['CODEX_API_KEY'],
    login: '.codex/auth.json',
    signIn: 'codex login',
  },
  gemini: {
    install: 'npm install -g @google/gemini-cli',
    keys: ['GEMINI_API_KEY', 'GOOGLE_API_KEY'],
    login: '.gemini/oauth_creds.json',
    signIn: 'gemini',
  },
  aider: {
    install: 'python3 -m pip install aider-install && aider-install',
    keys: ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'GEMINI_API_KEY', 'OPENROUTER_API_KEY'],
    login: undefined,
    signIn: 'export ANTHROPIC_API_KEY=…',
  },
  opencode: {
    install: 'npm install -g opencode-ai',
    keys: ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'OPENROUTER_API_KEY'],
    login: '.local/share/opencode/auth.json',
    signIn: 'opencode auth login',
  },
}

/** The file of a program, as a shell finds it; undefined if there is none. `cwd` is for names with a slash. */
export function findProgram(name: string, env: Environment, cwd: string): string | undefined {
  if (name.includes('/')) return isProgram(resolve(cwd, name)) ? resolve(cwd, name) : undefined
  return (env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => isAbsolute(folder))
    .map((folder) => join(folder, name))
    .find(isProgram)
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false // it does not exist, or this account cannot run it
  }
}

export const setKeys = (preset: PresetName, env: Environment) =>
  codingAgents[preset].keys.filter((name) => (env[name] ?? '').trim() !== '')

export function isSignedIn(preset: PresetName, env: Environment): boolean {
  const { login } = codingAgents[preset]
  const { HOME: home } = env
  if (setKeys(preset, env).length > 0) return true
  return login !== undefined && home !== undefined && existsSync(join(home, login))
}

/** The installed coding agents; those that can sign in come first. */
export function installedAgents(env: Environment, cwd: string): readonly PresetName[] {
  const found = presetNames.filter((name) => findProgram(presets[name].command[0], env, cwd) !== undefined)
  return [...found.filter((name) => isSignedIn(name, env)), ...found.filter((name) => !isSignedIn(name, env))]
}
