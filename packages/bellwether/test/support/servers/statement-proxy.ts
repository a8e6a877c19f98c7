/**
 * A TCP proxy for PostgreSQL that sees each prepared statement by its name. At one execution of one statement it stops: before the server
 * gets it, or after the server has committed it and before the client gets the answer.
 */
import { connect, createServer, type Socket } from 'node:net'
import { listen } from './listen.js'

export interface StatementPoint {
  /** The name of the prepared statement, such as `bw_record`. */
  readonly name: string
  /** 1: its first execution after `stopAt`. */
  readonly nth: number
  readonly when: 'before' | 'after'
}

export interface StatementProxy {
  readonly url: string
  /** The names of the executed statements, in order. */
  readonly seen: readonly string[]
  /** At this point the proxy calls `reached` and forwards nothing more. */
  stopAt(point: StatementPoint, reached: () => void): void
  close(): Promise<void>
}

export async function openStatementProxy(serverUrl: string): Promise<StatementProxy> {
  const { hostname, port } = new URL(serverUrl)
  const sockets = new Set<Socket>()
  const seen: string[] = []
  let stop: { readonly point: StatementPoint; readonly from: number; readonly reached: () => void } | undefined
  let stopped = false

  /** Whether this execution is the point. */
  function isPoint(name: string): boolean {
    seen.push(name)
    if (name !== stop?.point.name) return false
    return seen.slice(stop.from).filter((one) => one === name).length === stop.point.nth
  }
  function stopNow(): void {
    stopped = true
    stop?.reached()
  }

  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
      socket.on('error', () => undefined) // `close` follows
    }
    let isLast = false
    const fromClient = messages(true, (message) => {
      const name = boundStatement(message)
      if (!stopped && name !== undefined && isPoint(name)) {
        if (stop?.point.when === 'before') stopNow()
        else isLast = true
      }
      if (!stopped) upstream.write(message)
    })
    const fromServer = messages(false, (message) => {
      // 'Z': the statement has ended, and its transaction is committed.
      if (isLast && message[0] === 0x5a && !stopped) stopNow()
      if (!stopped && !isLast) client.write(message)
    })
    client.on('data', fromClient)
    upstream.on('data', fromServer)
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  const url = new URL(serverUrl)
  url.port = String(await listen(server))
  return {
    url: url.href,
    seen,
    stopAt: (point, reached) => void (stop = { point, from: seen.length, reached }),
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

/** Splits a stream into messages of the protocol. The first message of a client has no type. */
function messages(isClient: boolean, onMessage: (message: Buffer) => void): (chunk: Buffer | string) => void {
  let rest = Buffer.alloc(0)
  let hasType = !isClient
  return (chunk) => {
    rest = Buffer.concat([rest, chunk as Buffer])
    for (;;) {
      const offset = hasType ? 1 : 0
      if (rest.length < offset + 4) return
      const length = offset + rest.readInt32BE(offset)
      if (rest.length < length) return
      const message = rest.subarray(0, length)
      rest = rest.subarray(length)
      hasType = true
      onMessage(message)
    }
  }
}

/** The statement that a Bind message names. */
function boundStatement(message: Buffer): string | undefined {
  if (message[0] !== 0x42) return undefined
  const portalEnd = message.indexOf(0, 5)
  return message.toString('latin1', portalEnd + 1, message.indexOf(0, portalEnd + 1))
}
