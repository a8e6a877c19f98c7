/** The typical mistakes of a newcomer. Each ends in an error that names the fix. */
import { execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from '@bellwether/base'
import fastify from 'fastify'
import { refusedAddress } from '../../src/ports/tools/http-address.js'
import { openReceiver } from '../../src/runtime/parts/listen.js'
import { testFolder } from '../support/postgres.js'
import { runCli } from '../support/process.js'
import { quietLog } from '../support/quiet-log.js'
import { inProcess, type RunningUp } from './running-up.js'
import { listen } from '../support/servers/listen.js'

interface Mistake {
  readonly what: string
  /** Makes it and returns what the person reads. */
  readonly make: () => Promise<string>
  readonly names: RegExp
}

const oldNode = `data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'18.1.0'}})`
const bin = fileURLToPath(new URL('../../bin/bellwether.js', import.meta.url))

export function mistakes(up: RunningUp): readonly Mistake[] {
  /** In a folder without an `up`. */
  const typed = async (...words: readonly string[]) => (await inProcess(words)).err
  const atUp = async (...words: readonly string[]) => {
    const { out, err } = await up.run(...words)
    return err + out
  }
  return [
    {
      what: 'no project',
      make: () => typed('turn', 'run', 'greeter', 'hi'),
      names: /bellwether init, then .* bellwether up/,
    },
    { what: 'a mistyped command', make: () => typed('trun', 'list'), names: /Did you mean: bellwether turn\?/ },
    { what: 'a mistyped verb', make: () => typed('turn', 'lst'), names: /Did you mean: bellwether turn list\?/ },
    { what: 'a mistyped option', make: () => typed('turn', 'list', '--limt', '5'), names: /Did you mean --limit\?/ },
    { what: 'a mistyped agent', make: () => atUp('turn', 'run', 'greter', 'hi'), names: /Did you mean greeter\?/ },
    {
      what: 'an agent with a name like no other',
      make: () => atUp('turn', 'run', 'frobnicate', 'hi'),
      names: /\[unknown_agent\]\n +bellwether agents lists all/,
    },
    {
      what: 'an agent file that the server does not use',
      async make() {
        const folder = await testFolder()
        await mkdir(join(folder, 'agents'))
        await writeFile(join(folder, 'agents', 'mine.md'), '---\ncommand: [cat]\n---\n')
        const args = ['turn', 'run', 'mine', 'hi', '--server', up.url, '--key', up.adminKey]
        const command = runCli(args, { cwd: folder })
        await command.ended
        return command.stderr()
      },
      names: /agents\/mine\.md exists here, but the server does not use it: bellwether doctor/,
    },
    {
      what: 'a task for an agent without a file',
      async make() {
        const root = await testFolder()
        await mkdir(join(root, 'agents'))
        await writeFile(join(root, 'agents', 'coder.md'), '---\ncommand: [cat]\n---\n')
        return typed('task', 'add', 'one', '--agent', 'codr', '--root', root)
      },
      names: /^warning: agents\/ has no file for agent "codr"; did you mean coder\?\n$/,
    },
    {
      what: 'a turn that does not exist',
      make: () => atUp('turn', 'show', 'abc'),
      names: /\[not_found\]\n +`bellwether turn list` lists the turns of the project/,
    },
    {
      what: 'no instruction',
      make: () => typed('turn', 'run', 'greeter'),
      names: /turn run AGENT "…", or give --file FILE/,
    },
    { what: 'a limit of 0', make: () => typed('task', 'list', '--limit', '0'), names: /whole number from 1 to 1000/ },
    {
      what: 'a wrong time',
      make: () => typed('turn', 'list', '--since', 'today'),
      names: /such as 90s, 10m, 2h or 3d/,
    },
    { what: 'one object from a stream', make: () => typed('agents', '--watch', '--json'), names: /use --jsonl/ },
    {
      what: 'no key for a server',
      make: () => typed('agents', '--server', 'http://127.0.0.1:9'),
      names: /bellwether login http:\/\/127\.0\.0\.1:9, or give --key KEY/,
    },
    {
      what: 'a server that does not run',
      make: () => typed('agents', '--server', 'http://127.0.0.1:9', '--key', 'k'),
      names: /does not respond \[server_away\]/,
    },
    {
      what: 'a broken agent file',
      make: () => atUp('turn', 'run', 'broken', 'hi'),
      names: /agents\/broken\.md:4: invalid YAML/,
    },
    {
      what: 'a model without its API key',
      make: () => atUp('turn', 'run', 'thinker', 'hi'),
      names: /needs an API key.*Set ANTHROPIC_API_KEY/,
    },
    {
      what: 'a second turn for a busy agent',
      async make() {
        const first = await up.run('turn', 'run', 'hangs', 'go', '--no-wait')
        const second = await up.run('turn', 'run', 'hangs', 'go', '--no-wait')
        const shown = await up.run('turn', 'show', second.out.trim())
        for (const { out } of [second, first]) await up.run('turn', 'stop', out.trim())
        // The busy turn is named when the second starts, and in its page.
        const isNamed = [second.err, shown.out].every((text) =>
          text.includes(`bellwether turn stop ${first.out.trim()}`),
        )
        return isNamed ? second.err : `not named: ${second.err}${shown.out}`
      },
      names: /^queued: agent hangs runs one turn at a time, and turn \S+ has been (?:dispatched|running)/,
    },
    {
      what: 'an invalid policy',
      async make() {
        const root = await testFolder()
        await mkdir(join(root, 'config'))
        await writeFile(join(root, 'config', 'budget-policy.json'), '{"global":{"maxTaskTokens":"many"}}')
        await inProcess(['task', 'add', 'one', '--root', root])
        return typed('task', 'dispatch', '--command', 'true', '--root', root)
      },
      names:
        /config\/budget-policy\.json: global\.maxTaskTokens: must be a whole number from 1 .*\(got "many"\) \[invalid_policy\]/,
    },
    {
      what: 'a folder without tasks',
      make: async () => typed('task', 'list', '--root', await testFolder()),
      names: /Add the first with bellwether task add/,
    },
    {
      what: 'a port that is in use',
      make: listenTwice,
      names: new RegExp(`process ${process.pid} uses the port .*--port N`),
    },
    {
      what: 'a tool at a private address',
      make: async () => refusedAddress('intranet', '10.0.0.1').message,
      names: /"allow_private": true/,
    },
    {
      what: 'an old Node',
      make: async () => stderrOf(['--import', oldNode, bin, '--version']),
      names: /^bellwether needs Node 20 or newer, and this is Node 18\.1\.0\. .*\n$/,
    },
  ]
}

async function listenTwice(): Promise<string> {
  const holder = createServer()
  const port = await listen(holder)
  const over = new AbortController()
  const app = fastify()
  try {
    return await openReceiver({ clock: systemClock, log: quietLog, signal: over.signal }).listen(app, '127.0.0.1', port)
  } catch (error) {
    const { message, hint } = error as { message: string; hint: string }
    return `${message} ${hint}`
  } finally {
    over.abort()
    await app.close()
    holder.close()
  }
}

function stderrOf(args: readonly string[]): string {
  try {
    return execFileSync(process.execPath, args, { encoding: 'utf8', stdio: 'pipe' })
  } catch (error) {
    return (error as { stderr: string }).stderr
  }
}
