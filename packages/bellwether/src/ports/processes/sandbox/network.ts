/**
 * Which addresses a sandboxed program may reach. Pure. Addresses of this machine (loopback, its own interfaces, link-local, multicast, metadata services of
 * clouds) are reachable only if an entry names them.
 */
import { isIP } from 'node:net'

/** `on`: every address but those of this machine. A list: only the entries HOST:PORT; HOST may begin with `*.`, both may be `*`. */
export type Network = 'on' | 'off' | readonly string[]

interface Entry {
  readonly host: string
  readonly port: number | '*'
}

const entryPattern = /^(\*|(?:\*\.)?[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):(\*|\d{1,5})$/
export const entryHint = 'must be HOST:PORT, such as api.anthropic.com:443, *.npmjs.org:443 or localhost:11434'

export function readEntry(text: string): Entry | undefined {
  const found = entryPattern.exec(text)
  if (found === null) return undefined
  const port = found[2] === '*' ? '*' : Number(found[2])
  if (port !== '*' && (port < 1 || port > 65_535)) return undefined
  return { host: bare(found[1]!), port }
}

const bare = (host: string) => host.replace(/^\[|\]$/g, '').toLowerCase()

const entriesOf = (network: Network): readonly Entry[] =>
  network === 'on'
    ? [{ host: '*', port: '*' }]
    : network === 'off'
      ? []
      : network.flatMap((one) => readEntry(one) ?? [])

function matches(entry: Entry, host: string, port: number): boolean {
  if (entry.port !== '*' && entry.port !== port) return false
  if (entry.host === '*') return true
  return entry.host.startsWith('*.') ? host.endsWith(entry.host.slice(1)) : entry.host === host
}

/** `no`: refused. `public`: allowed if the name leads to another machine. `named`: allowed wherever it leads. */
export function mayReach(network: Network, host: string, port: number): 'no' | 'public' | 'named' {
  const allowed = entriesOf(network).filter((entry) => matches(entry, bare(host), port))
  if (allowed.length === 0) return 'no'
  return allowed.some((entry) => !entry.host.startsWith('*')) ? 'named' : 'public'
}

/** Ports of this machine that the list names: the sandbox has them on its own loopback. */
export const loopbackPorts = (network: Network): readonly number[] => [
  ...new Set(
    entriesOf(network).flatMap(({ host, port }) =>
      port !== '*' && (host === 'localhost' || isLoopback(host)) ? [port] : [],
    ),
  ),
]

const isLoopback = (address: string) => address.startsWith('127.') || address === '::1'

// What clouds tell a machine about itself, with the passwords of its account, beside the link-local address that most of them use.
const metadataServices: ReadonlySet<string> = new Set([
  'fd00:ec2::254', // Amazon
  'fd20:ce::254', // Google
  '168.63.129.16', // Microsoft
  '100.100.100.200', // Alibaba
  '192.0.0.192', // Oracle
])

/** `own`: the addresses of this machine's interfaces. */
export function isOfThisMachine(address: string, own: ReadonlySet<string>): boolean {
  const plain = /^::ffff:([\d.]+)$/i.exec(address)?.[1] ?? address.toLowerCase()
  if (own.has(plain) || isLoopback(plain) || metadataServices.has(plain)) return true
  if (isIP(plain) === 4) {
    const [first = 0, second = 0] = plain.split('.').map(Number)
    return first === 0 || first >= 224 || (first === 169 && second === 254)
  }
  return plain === '::' || /^(?:fe[89ab]|ff)/.test(plain) || /^(?:::|64:ff9b:)/.test(plain)
}
