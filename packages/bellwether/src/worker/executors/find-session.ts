/**
 * Finds the session of a program that names its sessions itself, if the worker died after the program had started and before its id was
 * stored. The session carries a mark of the turn. A lookup runs where the program runs: the same account, sandbox and environment. Pure.
 */
import { objectOf, parseJson } from '@bellwether/base'
import type { PresetName } from './presets.js'

export interface SessionSearch {
  /** What the first run must contain: an argument, or a line at the end of its prompt. */
  readonly args?: readonly string[]
  readonly promptMark?: string
  /** Prints what `idIn` reads. */
  readonly command: readonly string[]
  readonly idIn: (stdout: string) => string | undefined
  /** Whether a session that was found contains the prompt for certain. */
  readonly hasPrompt: boolean
}

// Newest first; a run that ended minutes ago is among them.
const listedMax = 100

// One file per session, in a folder per day of its start; the first lines contain the prompt.
const codexFiles = `find "\${CODEX_HOME:-$HOME/.codex}/sessions" -type f -name 'rollout-*.jsonl' -mtime -2 -exec grep -lF -e "$1" {} +`

/** Undefined for a program whose sessions Bellwether names. */
export function sessionSearch(preset: PresetName, agentTurnId: string): SessionSearch | undefined {
  const mark = `Bellwether turn: ${agentTurnId}`
  if (preset === 'codex')
    return {
      promptMark: mark,
      command: ['/bin/sh', '-c', codexFiles, 'sh', mark],
      idIn: newestRollout,
      hasPrompt: true,
    }
  if (preset === 'opencode')
    return {
      args: ['--title', mark],
      command: ['opencode', 'session', 'list', '--format', 'json', '--max-count', String(listedMax)],
      idIn: (stdout) => titled(stdout, mark),
      // The program creates the session before it adds the prompt.
      hasPrompt: false,
    }
  return undefined
}

/** The id in the name of the newest file: rollout-2026-01-31T12-00-00-ID.jsonl. Times in names sort as text. */
function newestRollout(stdout: string): string | undefined {
  const names = stdout.split('\n').map((path) => path.slice(path.lastIndexOf('/') + 1))
  const newest = names
    .filter((name) => rollout.test(name))
    .toSorted()
    .at(-1)
  return newest === undefined ? undefined : rollout.exec(newest)![1]
}
const rollout = /^rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-([0-9a-f-]{36})\.jsonl$/

/** The newest session with this title in a list of `opencode session list --format json`, which is sorted by time. */
function titled(stdout: string, title: string): string | undefined {
  // It prints nothing if there is no session.
  const list = parseJson(stdout)
  const found = (Array.isArray(list) ? list : []).map(objectOf).filter((one) => one['title'] === title)
  return found.map(({ id }) => id).find((id) => typeof id === 'string')
}
