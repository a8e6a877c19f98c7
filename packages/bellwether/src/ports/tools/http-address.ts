/**
 * Which addresses a tool may reach. Always: a name is resolved once for a connection, every address it has is judged, and the
 * connection goes to a judged one: what the name means a moment later does not matter. Private networks, this machine and the
 * metadata services of clouds are refused unless the declaration allows them.
 */
import { lookup as systemLookup, type LookupAddress } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { ToolFailure } from './tool-failure.js'

// Apart: one list would hold every IPv4 address against the mapped form that the other refuses.
const inner4 = new BlockList()
const inner6 = new BlockList()
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
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
  ['::', 96], // unspecified, loopback, and IPv4 in disguise
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

/** Whether an address is one of the open internet. What is no address is not. */
export function isPublic(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !inner4.check(address, 'ipv4')
  return family === 6 && !inner6.check(address, 'ipv6')
}

export function refusedAddress(host: string, address: string): ToolFailure {
  const where = host === address ? address : `${host} (${address})`
  return new ToolFailure(`${where} is not an address of the open internet, and this tool may reach no other`, {
    code: 'address_refused',
  })
}

/** Resolves for a connection: one address that is refused refuses the name, because nobody can say which one is meant. */
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
