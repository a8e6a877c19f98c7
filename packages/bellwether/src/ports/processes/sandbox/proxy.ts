/**
 * The only way out of a sandbox: an HTTP proxy in the worker, for CONNECT and plain requests. It accepts connections on a socket that was opened in the
 * sandbox's own network, resolves names itself, and connects to the address that it checked.
 */
import { lookup } from 'node:dns/promises'
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, isIP, type Server, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { Duplex } from 'node:stream'
import { errorMessage } from '@bellwether/base'
import { isOfThisMachine, mayReach, type Network } from './network.js'

export interface Proxy {
  /** Serves the listening socket of a sandbox. `port`: it stands for this port of the machine's loopback. */
  serve(server: Server, port?: number): void
  close(): void
}

// A build downloads from a few dozen connections at the same time.
const connectionsMax = 256
const connectMs = 30_000
// A model may think for minutes before it sends the first byte.
const idleMs = 900_000

class Refused extends Error {}

export function openProxy(network: Network, onRefused: (address: string) => void): Proxy {
  const open = new Set<Duplex>()
  /** Connections of the sandbox. Each has a file descriptor of the worker. */
  const clients = new Set<Socket>()
  const servers: Server[] = []

  /** The address to connect to. */
  async function resolveTarget(host: string, port: number): Promise<string> {
    const refuse = (why: string) => {
      onRefused(`${host}:${port}`)
      return new Refused(`The sandbox does not allow ${host}:${port}: ${why}`)
    }
    const name = host.replace(/^\[|\]$/g, '')
    const verdict = mayReach(network, name, port)
    if (verdict === 'no') throw refuse('add it to "network" in the agent file')
    const address = isIP(name) === 0 ? (await lookup(name)).address : name
    const own = new Set(Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map((one) => one.address)))
    if (verdict === 'public' && isOfThisMachine(address, own))
      throw refuse('it is an address of this machine, which "network" in the agent file must name')
    return address
  }

  function dial(host: string, port: number): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port, timeout: connectMs })
      socket.once('timeout', () => socket.destroy(new Error(`no connection within ${connectMs / 1_000} s`)))
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.setTimeout(idleMs)
        resolve(socket)
      })
    })
  }

  function join(one: Duplex, other: Socket): void {
    for (const [from, to] of [
      [one, other],
      [other, one],
    ] as const) {
      open.add(from)
      from.on('error', () => to.destroy())
      from.once('close', () => {
        open.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
  }

  const http = createServer({ requestTimeout: 0 }, (incoming, outgoing) => void forward(incoming, outgoing))
  http.on('clientError', (_error, socket) => socket.destroy())
  http.on('connect', (incoming: IncomingMessage, socket: Duplex) => void tunnel(incoming, socket))

  async function tunnel(incoming: IncomingMessage, socket: Duplex): Promise<void> {
    socket.on('error', () => socket.destroy())
    try {
      const { hostname, port } = addressOf(`http://${incoming.url ?? ''}`)
      const target = await dial(await resolveTarget(hostname, port), port)
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      join(socket, target)
    } catch (error) {
      socket.end(`HTTP/1.1 ${statusOf(error)}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`)
    }
  }

  async function forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    try {
      const { hostname, port, path, host } = addressOf(incoming.url ?? '')
      const address = await resolveTarget(hostname, port)
      const { 'proxy-connection': _connection, 'proxy-authorization': _key, ...sent } = incoming.headers
      const headers = { ...sent, host }
      const { method } = incoming
      const target = request({ host: address, port, path, method, headers, timeout: idleMs, setHost: false })
      target.on('timeout', () => target.destroy(new Error('the server does not respond')))
      target.on('error', (error) => fail(outgoing, error))
      target.on('response', (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.on('error', () => outgoing.destroy())
        answer.pipe(outgoing)
      })
      incoming.on('error', () => target.destroy())
      outgoing.once('close', () => target.destroy())
      incoming.pipe(target)
    } catch (error) {
      fail(outgoing, error)
    }
  }

  return {
    serve(server, port) {
      servers.push(server)
      server.on('connection', (socket: Socket) => {
        if (clients.size >= connectionsMax) return void socket.destroy()
        clients.add(socket)
        socket.once('close', () => clients.delete(socket))
        socket.on('error', () => socket.destroy())
        socket.setTimeout(idleMs, () => socket.destroy())
        if (port === undefined) http.emit('connection', socket)
        else
          dial('127.0.0.1', port).then(
            (target) => join(socket, target),
            () => socket.destroy(),
          )
      })
      server.on('error', () => undefined) // the turn's processes have ended, and its network with them
    },
    close() {
      for (const server of servers) server.close()
      for (const socket of [...open, ...clients]) socket.destroy()
      http.closeAllConnections()
    },
  }
}

/** Throws Refused for an address that is not one. */
function addressOf(url: string) {
  if (!URL.canParse(url)) throw new Refused(`${JSON.stringify(url.slice(0, 200))} is not an address`)
  const { hostname, port, pathname, search, host } = new URL(url)
  return { hostname, port: Number(port || 80), path: `${pathname}${search}`, host }
}

const statusOf = (error: unknown) =>
  `${error instanceof Refused ? 403 : 502} ${errorMessage(error).replaceAll(/[^ -~]/g, ' ')}`

function fail(outgoing: ServerResponse, error: unknown): void {
  if (outgoing.headersSent) return void outgoing.destroy()
  outgoing.writeHead(error instanceof Refused ? 403 : 502, { 'content-type': 'text/plain' })
  outgoing.end(`${errorMessage(error)}\n`)
}
