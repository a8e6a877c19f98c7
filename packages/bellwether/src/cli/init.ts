/**
 * `bellwether init`: a project folder that works at once: settings with everything said, two agents (one that needs no key, one
 * coding agent), a .gitignore line. Always: what is there is left as it is, and said to be there.
 */
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import { exitCodes, printLine } from './output.js'

const greeter = `---
description: Answers at once, with what it was asked. Needs no key; here to see a turn come and go.
command: [sh, -c, 'printf "You asked: "; cat']
budget:
  max_wall_seconds: 30
---
Whatever stands here is put in front of what the agent is asked.
`

const coder = `---
description: A coding agent on this folder.
preset: claude
env: [ANTHROPIC_API_KEY]
budget:
  max_wall_seconds: 1200
---
You are a careful programmer. Make the smallest change that does what is asked, run the tests, and say what you changed
and what you did not check.
`

const settings = `# Every key may be left out. All of them, with their defaults: docs/reference/settings.md
# Any of them can be set from the environment: BELLWETHER__SERVER__PORT=8080

[server]
# host = "127.0.0.1"    # another address needs keys: bellwether keys create --role admin
# port = 7717

[worker]
# concurrency = 16

[board]
# max_concurrent_spawns = 4

[database]
# url = "postgres://user:password@host/name"    # absent: an embedded PostgreSQL in .bellwether/
`

const files: readonly (readonly [path: string, text: string])[] = [
  ['bellwether.toml', settings],
  ['agents/greeter.md', greeter],
  ['agents/coder.md', coder],
]
const ignored = '.bellwether/'

export function initCommand(finish: (code: number) => void): Command {
  return new Command('init')
    .description('make a project folder: settings and two example agents')
    .argument('[folder]', 'where', '.')
    .option('--json', 'print one object')
    .action((folder: string, flags: { readonly json?: boolean }) => {
      const { root, made, kept } = initFolder(folder)
      if (flags.json === true) printLine({ root, made, kept })
      else tell(root, made, kept)
      finish(exitCodes.ok)
    })
}

/** Makes what is missing. */
export function initFolder(folder: string): { root: string; made: string[]; kept: string[] } {
  const root = resolve(folder)
  const made: string[] = []
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
      made.push(path)
    }
    ignore(join(root, '.gitignore'), made, kept)
  } catch (error) {
    throw new InvalidInput(`${root} cannot be made a project folder: ${errorMessage(error)}`, {
      code: 'cannot_write',
      cause: error,
      hint: 'name a folder that you may write to: bellwether init FOLDER',
    })
  }
  return { root, made, kept }
}

function ignore(file: string, made: string[], kept: string[]): void {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  if (text.split('\n').some((line) => /^\/?\.bellwether\/?$/.test(line.trim()))) {
    kept.push('.gitignore')
    return
  }
  appendFileSync(file, `${text === '' || text.endsWith('\n') ? '' : '\n'}${ignored}\n`)
  made.push('.gitignore')
}

function tell(root: string, made: readonly string[], kept: readonly string[]): void {
  const lines = [
    ...made.map((path) => `made  ${path}`),
    ...kept.map((path) => `kept  ${path} (it was there)`),
    '',
    `Next, in ${root}:`,
    '  bellwether up                                 everything, on this machine',
    '  bellwether turn run greeter "Good morning"    a turn, and what it delivers',
    '  bellwether doctor                             what is missing, and how to mend it',
    '',
  ]
  process.stdout.write(lines.join('\n'))
}
