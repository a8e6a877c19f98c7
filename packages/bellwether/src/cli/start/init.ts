/**
 * `bellwether init`: creates a project folder that works at once: settings, policies with their defaults, two agents (one needs no key,
 * one is a coding agent) and a .gitignore line. Existing files are kept and reported.
 */
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import { defaultPolicyFiles } from '../../board/policies/load.js'
import { exitCodes, printLine } from '../shared/output.js'

const greeter = `---
description: Repeats its instruction at once. Needs no API key; use it to try a turn.
command: [sh, -c, 'printf "You asked: "; cat']
budget:
  max_wall_seconds: 30
---
The text here comes before the instruction of every turn.
`

const coder = `---
description: A coding agent on this folder.
preset: claude
env: [ANTHROPIC_API_KEY]
budget:
  max_wall_seconds: 1200
---
You are a careful programmer. Make the smallest change that does the task, run the tests, and report what you changed and
what you did not check.
`

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
# url = "postgres://user:password@host/name"    # default: an embedded PostgreSQL in .bellwether/
`

/** Who retries a failed task, in order. `init` creates the agent. */
const recoveryChain = ['coder', 'human']

const files: readonly (readonly [path: string, text: string])[] = [
  ['bellwether.toml', settings],
  ...defaultPolicyFiles(recoveryChain),
  ['agents/greeter.md', greeter],
  ['agents/coder.md', coder],
]
const ignoredPath = '.bellwether/'

export function initCommand(finish: (code: number) => void): Command {
  return new Command('init')
    .description('create a project folder: settings and two example agents')
    .argument('[folder]', 'the folder', '.')
    .option('--json', 'print one object')
    .action((folder: string, flags: { readonly json?: boolean }) => {
      const { root, created, kept } = initFolder(folder)
      if (flags.json === true) printLine({ root, created, kept })
      else printCreated(root, created, kept)
      finish(exitCodes.ok)
    })
}

/** Creates the missing files. */
export function initFolder(folder: string): { root: string; created: string[]; kept: string[] } {
  const root = resolve(folder)
  const created: string[] = []
  const kept: string[] = []
  try {
    for (const [path, text] of files) {
      const file = join(root, path)
      mkdirSync(dirname(file), { recursive: true })
      if (existsSync(file)) {
        kept.push(path)
        continue
      }
      writeFileSync(file, text, { flag: 'wx' })
      created.push(path)
    }
    ignore(join(root, '.gitignore'), created, kept)
  } catch (error) {
    throw new InvalidInput(`Cannot create a project in ${root}: ${errorMessage(error)}`, {
      code: 'cannot_write',
      cause: error,
      hint: 'choose a folder that you may write to: bellwether init FOLDER',
    })
  }
  return { root, created, kept }
}

function ignore(file: string, created: string[], kept: string[]): void {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  if (text.split('\n').some((line) => /^\/?\.bellwether\/?$/.test(line.trim()))) {
    kept.push('.gitignore')
    return
  }
  appendFileSync(file, `${text === '' || text.endsWith('\n') ? '' : '\n'}${ignoredPath}\n`)
  created.push('.gitignore')
}

function printCreated(root: string, created: readonly string[], kept: readonly string[]): void {
  const lines = [
    ...created.map((path) => `created  ${path}`),
    ...kept.map((path) => `kept     ${path} (already exists)`),
    '',
    `Next, in ${root}:`,
    '  bellwether up                                 run everything on this machine',
    '  bellwether turn run greeter "Good morning"    run a turn and print its deliverable',
    '  bellwether doctor                             check this folder',
    '',
  ]
  process.stdout.write(lines.join('\n'))
}
