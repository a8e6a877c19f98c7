import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { deferred, systemClock, systemRandom } from '@bellwether/base'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { expect, it } from 'vitest'
import { quietLog } from '../../../test/support/quiet-log.js'
import { openMcpServer } from './server.js'

/** Answers the first requests of a client as a server with these tools does; never reads an answer. */
function fakeTransport(tools: () => readonly object[]) {
  const closed = deferred<void>()
  let answers = 0
  const serverInfo = { name: 'fake', version: '1' }
  const results: Readonly<Record<string, () => Record<string, unknown>>> = {
    initialize: () => ({ protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo }),
    'tools/list': () => ({ tools: tools() }),
  }
  const transport: Transport = {
    start: async () => undefined,
    async send(message: JSONRPCMessage) {
      if (!('method' in message)) {
        answers += 1
        return new Promise<void>(() => undefined)
      }
      const result = results[message.method]?.()
      if (result !== undefined && 'id' in message)
        queueMicrotask(() => transport.onmessage?.({ jsonrpc: '2.0', id: message.id, result }))
    },
    async close() {
      closed.resolve()
      transport.onclose?.()
    },
  }
  return { transport, closed: closed.promise, answers: () => answers }
}

const connect = async (fake: ReturnType<typeof fakeTransport>) => {
  const transport = () => ({ transport: fake.transport, lastError: () => '' })
  const server = openMcpServer({ name: 'fake', transport, clock: systemClock, random: systemRandom, log: quietLog })
  await server.settled()
  return server
}

it('ends the connection to a server that sends requests and does not read the answers', async () => {
  const fake = fakeTransport(() => [])
  const server = await connect(fake)
  for (let id = 0; id < 200; id += 1) fake.transport.onmessage?.({ jsonrpc: '2.0', id: `s${id}`, method: 'ping' })
  await fake.closed
  expect(fake.answers()).toBe(100)
  await server.close()
})

it('ends the connection to a server whose request has an id that is too long to repeat', async () => {
  const fake = fakeTransport(() => [])
  const server = await connect(fake)
  fake.transport.onmessage?.({ jsonrpc: '2.0', id: 'i'.repeat(1_001), method: 'ping' })
  await fake.closed
  expect(fake.answers()).toBe(0)
  await server.close()
})

it('does not keep the text of a description beyond the limit in memory', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const tools = () =>
    Array.from({ length: 50 }, (_, at) => ({
      name: `t${at}`,
      description: Buffer.alloc(1_000_000, 'd').toString(),
      inputSchema: { type: 'object' },
    }))
  collect()
  const before = process.memoryUsage().heapUsed
  const server = await connect(fakeTransport(tools))
  collect()
  expect(server.tools()[7]?.description).toHaveLength(4_096)
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(25_000_000)
  await server.close()
})
