/**
 * Shows what the files of a folder make `up` run, listen on and connect to, and which of them a turn changed, and records that a person
 * trusts it. `bellwether trust` and `up` ask the same question. Nothing runs before the answer.
 */
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { plain } from '../../client/sanitize.js'
import { agentsFileIn } from '../../runtime/control/files.js'
import { dataFolderOf } from '../../runtime/data-folder.js'
import { controlFolder } from '../../runtime/paths.js'
import { openProject, trustFolderOf, type Project } from '../../runtime/control/trust.js'
import { loadSettings } from '../../settings/load.js'

/**
 * Asks before `up` uses a folder that this account does not trust yet. Throws if the answer is no, or if no one can answer. Only an answer accepts
 * a file that a turn changed: otherwise its version from before stays in force, so that a restart by a script accepts nothing of an agent's.
 */
export async function requireTrust(folder: string, trust: boolean, flags: FolderFlags): Promise<Project> {
  const found = openFolder(folder, flags)
  const canAnswer = !trust && hasTerminal()
  const project = canAnswer || found.held.length === 0 ? found : found.withoutHeld(acceptedFolder(folder, flags))
  if (project !== found) process.stderr.write(`${heldSummary(found)}\n`)
  if (!isTrusted(project) && !trust) {
    process.stderr.write(`${summary(project)}\n`)
    if (!(await isAccepted('Trust this folder and start?')))
      throw new InvalidInput(`The folder ${project.folder} is not trusted, so nothing was started`, {
        code: 'not_trusted',
        hint: 'read the list above; to accept it, run `bellwether up` in a terminal and answer, or `bellwether up --trust` in a script',
      })
  }
  if (!isTrusted(project) || project.record === undefined) accept(project)
  return project
}

const acceptedFolder = (folder: string, { data }: FolderFlags) =>
  join(data === undefined ? dataFolderOf(folder) : resolve(folder, data), controlFolder)

/** Where the project and what was accepted are, if not in the usual places. */
export interface FolderFlags {
  readonly data?: string
  readonly agents?: string
}

export function openFolder(folder: string, { data, agents }: FolderFlags): Project {
  const { board, worker } = loadSettings({ folder, env: environment() })
  const agentsFile = agentsFileIn(folder, agents ?? worker.agents)
  return openProject({ folder, root: board.root ?? '.', agentsFile }, trustFolderOf(folder, data))
}

export const isTrusted = ({ untrusted, held }: Project) => untrusted.length === 0 && held.length === 0

/** A command agent can type this command too. With the same account it can do more than that; this stops mistakes. */
export function accept(project: Project, unseen?: 'unseen'): void {
  if (environment()['BELLWETHER_TURN'] !== undefined)
    throw new InvalidInput('Cannot accept files inside a turn: a person decides what agents run', {
      code: 'not_trusted',
      hint: 'run `bellwether trust` in a terminal of your own',
    })
  project.trust(unseen)
}

export function summary({ folder, untrusted, held }: Project): string {
  const kinds = [...new Set(untrusted.map(({ kind }) => kind))]
  const lines = kinds.flatMap((kind) => [
    `  ${kind}`,
    ...untrusted
      .filter((effect) => effect.kind === kind)
      .map(({ what, file }) => `    ${shown(what)}   (${shown(file)})`),
  ])
  return [
    ...(lines.length === 0
      ? []
      : [`The files in ${folder} are not trusted yet. \`bellwether up\` with them`, ...lines]),
    ...(held.length === 0 ? [] : [heldSummary({ held })]),
    '',
  ].join('\n')
}

const heldSummary = ({ held }: Pick<Project, 'held'>) =>
  [
    'A turn changed these files; the version from before is in force until you run `bellwether trust`:',
    ...held.map((file) => `    ${shown(file)}`),
  ].join('\n')

// A long command would hide the ones below it.
const shownMaxChars = 240
const shown = (text: string) => {
  const safe = plain(text)
  return safe.length > shownMaxChars ? `${safe.slice(0, shownMaxChars)}… (${safe.length} characters)` : safe
}

const hasTerminal = () => process.stdin.isTTY && process.stderr.isTTY

/** False without a terminal. */
export async function isAccepted(question: string): Promise<boolean> {
  if (!hasTerminal()) return false
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `)).trim())
  } finally {
    lines.close()
  }
}
