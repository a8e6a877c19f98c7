/**
 * Decides which addresses a tool may reach. A name is resolved once per connection, all of its addresses are checked, and the
 * connection uses a checked one, so a later DNS change has no effect. Private networks, this machine and cloud metadata services
 * are rejected unless the declaration allows them.
 */
import { lookup as systemLookup, type LookupAddress } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { ToolFailure } from './tool-failure.js'

// Two lists: in one, the blocked range of IPv4-mapped IPv6 addresses would block every IPv4 address.
const inner4 = new BlockList()
const inner6 = new BlockList()
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32], // the metadata service of Azure
  ['169.254.0.0', 16], // link-local, and the metadata service of most clouds
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const)
  inner4.addSubnet(network, bits, 'ipv4')
for (const [network, bits] of [
  ['::', 96], // unspecified, loopback, and IPv4-compatible addresses
  ['::ffff:0:0', 96],
  ['::ffff:0:0:0', 96],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
] as const)
  inner6.addSubnet(network, bits, 'ipv6')

/** Whether the text is an address of the public internet. */
export function isPublic(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !inner4.check(address, 'ipv4')
  return family === 6 && !inner6.check(address, 'ipv6')
}

export function refusedAddress(host: string, address: string): ToolFailure {
  const where = host === address ? address : `${host} (${address})`
  return new ToolFailure(
    `Cannot connect to ${where}: it is not a public address, and this tool may reach public addresses only. If it is meant to, set "allow_private": true for the tool in tools.json`,
    { code: 'address_refused' },
  )
}

/** Resolves a name for a connection; one private address rejects the name, because the connection may use any of them. */
export function guardedLookup(resolve: typeof systemLookup = systemLookup): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, found) => {
      const addresses = found as LookupAddress[] | undefined
      const first = addresses?.[0]
      if (error !== null || addresses === undefined || first === undefined) {
        const failed = error ?? Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' })
        callback(failed as NodeJS.ErrnoException, '')
        return
      }
      const inside = addresses.find((one) => !isPublic(one.address))
      if (inside !== undefined) callback(refusedAddress(hostname, inside.address) as NodeJS.ErrnoException, '')
      else if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }
}
