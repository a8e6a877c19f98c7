/** A TCP proxy that can go silent: it accepts and keeps connections but forwards nothing, as a network that drops packets. */
import { connect, createServer, type Socket } from 'node:net'
import { listen } from './listen.js'

export interface SilentProxy {
  /** The URL of the server, through the proxy. */
  readonly url: string
  /** Connections that existed while it was silent stay silent: the other side has forgotten them. */
  silence(silent: boolean): void
  close(): Promise<void>
}

export async function openSilentProxy(serverUrl: string): Promise<SilentProxy> {
  const { hostname, port } = new URL(serverUrl)
  const sockets = new Set<Socket>()
  let silent = false
  const server = createServer((client) => {
    keep(client)
    if (silent) return
    const upstream = connect(Number(port), hostname)
    keep(upstream)
    client.pipe(upstream)
    upstream.pipe(client)
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      one.on('close', () => (silent ? undefined : other.destroy()))
  })
  function keep(socket: Socket): void {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => undefined) // `close` follows
  }
  const url = new URL(serverUrl)
  url.port = String(await listen(server))
  return {
    url: url.href,
    silence(wanted) {
      silent = wanted
      for (const socket of sockets) if (wanted) socket.unpipe().pause()
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
