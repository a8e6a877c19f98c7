/**
 * What `bellwether init` does: it creates a project folder that works at once: settings, policies with their defaults, a check that runs the tests of
 * the project, an agent that needs no key and a coding agent that this machine has. In a git repository it ignores the tasks in state/, which are data of this
 * machine; other run-time files lie outside the folder. Existing files are kept and reported.
 */
import { appendFileSync, existsSync, lstatSync, mkdirSync, readdirSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type Environment, errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { acceptanceFile, type AcceptancePolicy } from '../../board/policies/acceptance-policy.js'
import { defaultPolicyFiles } from '../../board/policies/load.js'
import { defaultRecovery, human } from '../../board/policies/recovery.js'
import { codingAgents, installedAgents, isSignedIn, setKeys } from '../../runtime/coding-agents.js'
import { trustCreated } from '../../runtime/control/trust.js'
import { isInside } from '../../runtime/data-folder.js'
import { ignoresStateIn, repositoryOf } from '../../runtime/doctor/surroundings.js'
import { readRegularFile } from '../../settings/regular-file.js'
import { presetNames, type PresetName } from '../../worker/executors/presets.js'
import { testCommandOf } from '../../runtime/project-tests.js'

const greeter = `---
description: Repeats its instruction at once. Needs no API key; use it to try a turn.
command: [sh, -c, 'printf "You asked: "; cat']
budget:
  max_wall_seconds: 30
---
The text here comes before the instruction of every turn.
`

/** Arguments with which a coding agent changes files, because no person is there to confirm it. */
const argsOf: Readonly<Record<Exclude<PresetName, 'claude'>, string>> = {
  codex: 'args: [--sandbox, workspace-write] # it may change files of this folder\n',
  gemini: 'args: [--approval-mode, auto_edit] # it may change files; no person is there to confirm it\n',
  aider: '',
  opencode: '',
}

/** Without a rule, claude may run no command of the project, not even its tests. */
const claudeArgs = (tests: string | undefined) =>
  tests === undefined
    ? 'args: [--permission-mode, acceptEdits] # it may change files; --allowedTools, "Bash(make *)" would let it run make\n'
    : `args: [--permission-mode, acceptEdits, --allowedTools, "Bash(${tests} *)"] # it may change files and run the tests\n`

/** The keys that are set; of a program that has none, the usual one. */
function coder(preset: PresetName, env: Environment, tests: string | undefined): string {
  const keys = setKeys(preset, env)
  const passed = keys.length > 0 ? keys : codingAgents[preset].keys.slice(0, 1)
  return `---
description: A coding agent on this folder.
preset: ${preset} # one of ${presetNames.join(', ')}
${preset === 'claude' ? claudeArgs(tests) : argsOf[preset]}env: [${passed.join(', ')}] # variables that it gets from the terminal of up
budget:
  max_wall_seconds: 1200
---
You are a careful programmer. Make the smallest change that does the task, run the tests, and report what you changed and
what you did not check.
`
}

const settings = `# Every key is optional. docs/reference/settings.md lists all keys with their defaults.
# An environment variable overrides a key: BELLWETHER__SERVER__PORT=8080

[server]
# host = "127.0.0.1"    # another address needs a key: bellwether keys create --role admin
# port = 7717

[worker]
# concurrency = 16

[board]
# max_concurrent_spawns = 4

[database]
# url = "postgres://user:password@host/name"    # default: an embedded PostgreSQL
`

/** Not loaded under this name: a person decides what runs by the clock. */
const schedule = `# Rename this file to nightly.toml to use it. docs/how-to/run-on-a-schedule.md lists all keys.
cron = "30 2 * * *"            # minute, hour, day of month, month, day of week
time_zone = "Europe/Berlin"
agent = "coder"
instruction = "Update the dependencies, run the tests, and report what changed."
missed = "latest"              # after a downtime: skip, latest or all
overlap = "skip"               # while the last turn runs: skip, queue or replace
`

const gitignore = '.gitignore'
const coderFile = 'agents/coder.md'
/** A failed task: the same agent tries again with what failed, at once if only its result was not accepted, then a person decides. */
const recovery = {
  recoveryChain: [human],
  sameAgentFirst: true,
  reasonPolicies: { ...defaultRecovery.reasonPolicies, incomplete_output: { cooldownSec: 0 } },
}

// Longer than the default of commands: a test suite may take minutes.
const testSeconds = 900

const testsOf = (command: string | undefined): AcceptancePolicy['checks'] =>
  command === undefined ? {} : { tests: { command, timeoutSec: testSeconds, description: command } }

const filesFor = (
  preset: PresetName,
  env: Environment,
  tests: string | undefined,
): readonly (readonly [path: string, text: string])[] => [
  ['bellwether.toml', settings],
  ...defaultPolicyFiles(recovery, testsOf(tests)),
  ['agents/greeter.md', greeter],
  [coderFile, coder(preset, env, tests)],
  ['schedules/nightly.toml.example', schedule],
]

export interface Initialized {
  readonly root: string
  readonly created: readonly string[]
  readonly kept: readonly string[]
  /** What git ignores from now on. */
  readonly ignored: readonly string[]
  /** The coding agents on the PATH. */
  readonly found: readonly string[]
  /** The command of the check "tests"; null: no file of the project says how it is tested. */
  readonly tests: string | null
  /** What the coding agent of agents/coder.md still needs; null: nothing. */
  readonly missing: string | null
}

/** Creates the missing files. `env` decides which coding agent agents/coder.md starts. */
export function initFolder(folder: string, env: Environment = {}): Initialized {
  const root = resolve(folder)
  const created: string[] = []
  const kept: string[] = []
  const ignored: string[] = []
  const found = installedAgents(env, root)
  const preset = found[0] ?? 'claude'
  const tests = testCommandOf(root)
  try {
    for (const [path, text] of filesFor(preset, env, tests)) {
      const file = join(root, path)
      mustStayIn(root, dirname(file))
      mkdirSync(dirname(file), { recursive: true })
      if (existsSync(file)) {
        kept.push(path)
        continue
      }
      writeFileSync(file, text, { flag: 'wx' })
      created.push(path)
    }
    mustStayIn(root, join(root, gitignore))
    const added = ignoreInGit(root, preset)
    if (added !== undefined) (added.length > 0 ? created : kept).push(gitignore)
    ignored.push(...(added ?? []))
  } catch (error) {
    throw new InvalidInput(`Cannot create a project in ${root}: ${errorMessage(error)}`, {
      code: 'cannot_write',
      cause: error,
      hint: 'choose a folder that you may write to: bellwether init FOLDER',
    })
  }
  // Its author is the person who runs this command.
  trustOwn(root, created)
  return {
    root,
    created,
    kept,
    ignored,
    found,
    tests: created.includes(acceptanceFile.path) ? (tests ?? null) : null,
    missing: created.includes(coderFile) ? missingFor(preset, found, env) : null,
  }
}

/** A repository may bring links along: nothing is written where they lead out of the folder. */
function mustStayIn(root: string, path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return
  const to = realpathSync(path)
  if (!isInside(realpathSync(root), to)) throw new Error(`${path} is a link to ${to}, outside the folder`)
}

function missingFor(preset: PresetName, found: readonly string[], env: Environment): string | null {
  const { install, signIn, keys } = codingAgents[preset]
  if (found.length === 0) return `no coding agent is installed; agents/coder.md expects claude: ${install}`
  if (isSignedIn(preset, env)) return null
  return `${preset} has no key and has not signed in. To sign in: ${signIn}${signIn.startsWith('export') ? '' : `; or export ${keys[0]}=…`}`
}

/**
 * In a git repository: makes git ignore the tasks. Undefined: not a repository, or state/ has files that are not Bellwether's, which
 * git must keep seeing.
 */
function ignoreInGit(root: string, preset: PresetName): readonly string[] | undefined {
  if (repositoryOf(root) === undefined) return undefined
  const state = join(root, 'state')
  if (existsSync(state) && !existsSync(join(state, 'tasks.jsonl')) && readdirSync(state).length > 0) return undefined
  const path = join(root, gitignore)
  const text = existsSync(path) ? readRegularFile(path) : ''
  const added = [
    ...(ignoresStateIn(text) ? [] : ['/state/']),
    // Aider keeps its conversations in the folder in which it works.
    ...(preset !== 'aider' || /^\.aider\*/m.test(text) ? [] : ['.aider*']),
  ]
  if (added.length === 0) return added
  const about = added[0] === '/state/' ? '# The tasks of Bellwether. Remove the line to keep them in git.\n' : ''
  const gap = text === '' || text.endsWith('\n') ? '' : '\n'
  appendFileSync(path, `${gap}${about}${added.join('\n')}\n`)
  return added
}

/** Without a state folder nothing is recorded, and `up` asks. */
function trustOwn(root: string, created: readonly string[]): void {
  try {
    trustCreated(root, created)
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    process.stderr.write(`warning: ${error.message}\n`)
  }
}

interface Shown {
  /** What a person types to start this program. */
  readonly program: string
  /** Whether an `up` of the folder runs. */
  readonly runs: boolean
}

export function createdText(done: Initialized, { program, runs }: Shown): string {
  const { root, created, kept, ignored, found, tests, missing } = done
  const next = `${root === process.cwd() ? '' : `cd ${root} && `}${program} up`
  return [
    ...created.map((path) =>
      path === gitignore ? `changed  ${path} (git ignores ${ignored.join(' and ')})` : `created  ${path}`,
    ),
    ...kept.map((path) => `kept     ${path} (already exists)`),
    '',
    ...(found.length === 0 ? [] : [`Coding agents on this machine: ${found.join(', ')}`]),
    ...(tests === null ? [] : [`Tests of this project: ${tests} (a task with --check tests must pass them)`]),
    ...(missing === null ? [] : [`Note: ${missing}`]),
    `${runs ? 'Run a turn:                  ' : 'While `up` runs, run a turn: '} ${program} turn run greeter "Good morning"`,
    `Check this folder:            ${program} doctor`,
    runs
      ? 'Next:                         `up` runs here already and has loaded the agents'
      : `Next:                         ${next}`,
    '',
  ].join('\n')
}
