import { expect, it } from 'vitest'
import { isOfThisMachine, loopbackPorts, mayReach, readEntry, type Network } from './network.js'

it.each<[network: Network, address: [string, number], verdict: string]>([
  ['on', ['example.org', 443], 'public'],
  ['on', ['127.0.0.1', 5432], 'public'],
  ['off', ['example.org', 443], 'no'],
  [['api.example.org:443'], ['API.example.org', 443], 'named'],
  [['api.example.org:443'], ['api.example.org', 80], 'no'],
  [['api.example.org:443'], ['evil-api.example.org', 443], 'no'],
  [['*.example.org:443'], ['a.b.example.org', 443], 'public'],
  [['*.example.org:443'], ['example.org', 443], 'no'],
  [['*.example.org:443'], ['evilexample.org', 443], 'no'],
  [['*:443'], ['example.org', 443], 'public'],
  [['localhost:*'], ['localhost', 5433], 'named'],
  [['[::1]:80'], ['[::1]', 80], 'named'],
])('network %j: %j is %s', (network, [host, port], verdict) => {
  expect(mayReach(network, host, port)).toBe(verdict)
})

it.each(['example.org', 'example.org:0', 'example.org:65536', 'http://example.org:80', 'a b:80', '*foo:80', ''])(
  'rejects the entry %j',
  (text) => expect(readEntry(text)).toBeUndefined(),
)

it('an address of this machine is one of its loopback, its interfaces, link-local or multicast, also in other notations', () => {
  const own = new Set(['10.0.0.5', 'fd00::5'])
  const yes = [
    '127.0.0.1',
    '127.8.8.8',
    '::1',
    '::',
    '0.0.0.0',
    '10.0.0.5',
    'fd00::5',
    '169.254.169.254',
    'fe80::1',
    '224.0.0.1',
    'fd00:ec2::254',
    '168.63.129.16',
    '100.100.100.200',
  ]
  const mapped = ['::ffff:127.0.0.1', '::ffff:10.0.0.5', '::ffff:7f00:1', '64:ff9b::7f00:1']
  for (const address of [...yes, ...mapped]) expect([address, isOfThisMachine(address, own)]).toEqual([address, true])
  for (const address of ['10.0.0.6', '192.0.2.1', '2001:db8::1'])
    expect([address, isOfThisMachine(address, own)]).toEqual([address, false])
})

it('has the named ports of the loopback', () => {
  expect(loopbackPorts(['localhost:80', '127.0.0.1:80', '[::1]:81', 'example.org:82', 'localhost:*'])).toEqual([80, 81])
})
