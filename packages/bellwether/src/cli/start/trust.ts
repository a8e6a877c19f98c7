/**
 * `bellwether trust`: shows what the files of this folder make `up` run, listen on and connect to, and which of them a turn changed,
 * and records that a person trusts it. `up` asks the same question. Nothing runs before the answer.
 */
import { createInterface } from 'node:readline/promises'
import { environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import { plain } from '../../client/sanitize.js'
import { agentsFileIn } from '../../runtime/control/files.js'
import { openProject, trustFolderOf, type Project } from '../../runtime/control/trust.js'
import { loadSettings } from '../../settings/load.js'
import { exitCodes, printLine } from '../shared/output.js'

interface Flags {
  readonly data?: string
  readonly agents?: string
  readonly yes?: boolean
  readonly json?: boolean
}

export function trustCommand(finish: (code: number) => void): Command {
  return new Command('trust')
    .description('show what the files of this folder make `up` run, and accept it, including files that a turn changed')
    .option('--data <dir>', 'the data folder, if `up` was started with --data')
    .option('--agents <file>', 'the agents file of `up`, if it was started with one (default: worker.agents)')
    .option('-y, --yes', 'accept without asking')
    .option('--json', 'print one JSON object, and accept nothing unless --yes is given')
    .action(async (flags: Flags) => {
      const project = openFolder(process.cwd(), flags)
      const { untrusted, held } = project
      if (flags.json === true) {
        if (flags.yes === true) accept(project)
        printLine({ trusted: flags.yes === true || isTrusted(project), untrusted, changed_by_turns: held })
      } else if (isTrusted(project)) process.stdout.write('Nothing to accept: everything in this folder is trusted.\n')
      else {
        process.stdout.write(summary(project))
        if (flags.yes !== true && !(await isAccepted('Accept this?'))) return finish(exitCodes.failure)
        accept(project)
        process.stdout.write('Accepted. A running `up` uses the files within a few seconds.\n')
      }
      finish(exitCodes.ok)
    })
}

/** Asks before `up` uses a folder that this account does not trust yet. Throws if the answer is no, or if no one can answer. */
export async function requireTrust(folder: string, trust: boolean, flags: FolderFlags): Promise<Project> {
  const project = openFolder(folder, flags)
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

type FolderFlags = Pick<Flags, 'data' | 'agents'>

function openFolder(folder: string, { data, agents }: FolderFlags): Project {
  const { board, worker } = loadSettings({ folder, env: environment() })
  const agentsFile = agentsFileIn(folder, agents ?? worker.agents)
  return openProject({ folder, root: board.root ?? '.', agentsFile }, trustFolderOf(folder, data))
}

const isTrusted = ({ untrusted, held }: Project) => untrusted.length === 0 && held.length === 0

/** A command agent can type this command too. With the same account it can do more than that; this stops mistakes. */
function accept(project: Project): void {
  if (environment()['BELLWETHER_TURN'] !== undefined)
    throw new InvalidInput('Cannot accept files inside a turn: a person decides what agents run', {
      code: 'not_trusted',
      hint: 'run `bellwether trust` in a terminal of your own',
    })
  project.trust()
}

function summary({ folder, untrusted, held }: Project): string {
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
    ...(held.length === 0 ? [] : ['A turn changed these files; the version from before is in force:']),
    ...held.map((file) => `    ${shown(file)}`),
    '',
  ].join('\n')
}

// A long command would hide the ones below it.
const shownMaxChars = 240
const shown = (text: string) => {
  const safe = plain(text)
  return safe.length > shownMaxChars ? `${safe.slice(0, shownMaxChars)}… (${safe.length} characters)` : safe
}

/** False without a terminal. */
export async function isAccepted(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return false
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `)).trim())
  } finally {
    lines.close()
  }
}
