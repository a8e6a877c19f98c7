/**
 * `bellwether login` and `logout`: store the address and key of a server for this account, and forget them. The key is checked first. It is
 * read from stdin or asked for, because other accounts can see the options of a command.
 */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { systemClock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import { checkedUrl, openClient } from '../../client/client.js'
import { plain } from '../../client/sanitize.js'
import { print } from '../shared/output.js'
import { readServers, sameServer, serversFile, writeServers } from '../shared/stored-servers.js'

interface Flags {
  readonly key?: string
  readonly json?: boolean
}

export function loginCommand(): Command {
  return new Command('login')
    .description('store the address and key of a server; without an address, list the stored ones')
    .argument('[server]', 'the address of the server, such as https://fleet.example.com')
    .option('--key <key>', 'the API key (default: read from stdin, or asked for on a terminal)')
    .option('--json', 'print one JSON object')
    .action(async (server: string | undefined, flags: Flags) => {
      const known = readServers()
      if (server === undefined) {
        const urls = known.map(({ url }) => url)
        const text = () => (urls.length === 0 ? 'No stored servers: bellwether login URL' : urls.map(plain).join('\n'))
        return print(flags, { servers: urls }, text)
      }
      checkedUrl(server)
      const key = (flags.key ?? (await readKey(server))).trim()
      if (key === '')
        throw new InvalidInput('No key was given', {
          code: 'no_key',
          hint: 'pipe it in (bellwether login URL < key.txt), or create one: bellwether keys create --role operator',
        })
      const me = await openClient({ url: server, key, project: 'default' }, systemClock).ask('GET /me')
      writeServers([{ url: server, key }, ...known.filter(({ url }) => !sameServer(url, server))])
      return print(
        flags,
        { server, key_id: me.key_id, role: me.role, file: serversFile() },
        () =>
          `Logged in to ${plain(server)} as ${plain(me.name ?? me.key_id)} (${me.role}); stored in ${serversFile()}`,
      )
    })
}

export function logoutCommand(): Command {
  return new Command('logout')
    .description('forget a stored server; its key stays valid')
    .argument('<server>', 'the address of the server')
    .option('--json', 'print one JSON object')
    .action((server: string, flags: Flags) => {
      const known = readServers()
      const left = known.filter(({ url }) => !sameServer(url, server))
      if (left.length === known.length)
        throw new InvalidInput(`Cannot forget ${server}: no key of it is stored`, {
          code: 'unknown_server',
          hint: '`bellwether login` lists the stored servers',
        })
      writeServers(left)
      print(
        flags,
        { server, status: 'forgotten' },
        () => `Forgot ${plain(server)}; to end its key: bellwether keys revoke`,
      )
    })
}

/** From a terminal without an echo. */
async function readKey(server: string): Promise<string> {
  const isTerminal = process.stdin.isTTY
  if (isTerminal) process.stderr.write(`API key for ${plain(server)}: `)
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output: silent, terminal: isTerminal })
  try {
    for await (const line of lines) return line
    return ''
  } finally {
    lines.close()
    if (isTerminal) process.stderr.write('\n')
  }
}
