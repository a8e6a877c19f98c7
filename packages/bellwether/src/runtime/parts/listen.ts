/**
 * The listening socket of an HTTP server. If it fails, the receiver closes it, waits, and binds the same address again, as often
 * as needed; established connections stay open. Node does not report errors of `accept`, so the receiver connects to itself
 * every 5 s.
 */
import { Server as TlsServer } from 'node:tls'
import { connect, Server as NetServer, type AddressInfo } from 'node:net'
import { errorMessage, hasCode, type Clock, type Log } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { FastifyInstance } from 'fastify'
import { plain } from '../../client/sanitize.js'
import { portHolder } from '../../ports/processes/port-holder.js'
import { loop } from '../../ports/loop.js'
import { backoffMs } from '../../ports/retry.js'

/** Whether only this machine can reach the address. */
export const isLoopback = (host: string) => /^(?:127(?:\.\d{1,3}){3}|::1|localhost)$/.test(host)

export interface ReceiverOptions {
  readonly clock: Clock
  readonly log: Log
  /** Ends the attempts to bind the address again. */
  readonly signal: AbortSignal
  /** Called with the error of each failure, and with undefined when the server listens again. */
  readonly onChange?: (error: string | undefined) => void
}

export interface Receiver {
  /** False while the server cannot accept connections. */
  isUp(): boolean
  /** Returns the URL under which the app answers; port 0 picks a free one. */
  listen(app: FastifyInstance, host: string, port: number): Promise<string>
}

const backoff = { mode: 'exponential', baseMs: 250, multiplier: 2, maxMs: 30_000, jitterPct: 0 } as const
// After this time without an error the pauses start at their minimum again.
const stableMs = 60_000
/** One probe costs less than 1 ms. */
export const probeIntervalMs = 5_000
// A blocked event loop can delay one probe; two in a row fail only if the socket does.
const probeTimeoutMs = 2_000
const lateProbesMax = 2
// Errors of the probe's own end: this process has no file descriptor, memory or local port left. A new socket would not help.
const probeErrors: ReadonlySet<unknown> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL', 'EAGAIN'])

export function openReceiver({ clock, log, signal, onChange }: ReceiverOptions): Receiver {
  let isUp = true
  let [failures, upSinceMs] = [0, 0]

  function failed(error: unknown): void {
    failures += 1
    log.error({ err: error, failures }, 'receiver failed; restarting')
    onChange?.(errorMessage(error))
  }

  /** Fails the receiver, unless it is already restarting: then `bind` gets the error. */
  function fail(error: unknown, server: NetServer, host: string, port: number): void {
    if (!isUp || signal.aborted) return
    isUp = false
    if (clock.monotonicMs() - upSinceMs > stableMs) failures = 0
    failed(error)
    void restart(server, host, port)
  }

  async function restart(server: NetServer, host: string, port: number): Promise<void> {
    // Unlike the HTTP server's own `close`, this one leaves idle connections open.
    NetServer.prototype.close.call(server)
    while (!signal.aborted) {
      await clock.sleep(backoffMs({ backoff }, failures), signal)
      if (signal.aborted) return
      try {
        await bind(server, host, port)
        isUp = true
        upSinceMs = clock.monotonicMs()
        log.info({ host, port, failures }, 'receiver listens again')
        return onChange?.(undefined)
      } catch (error) {
        failed(error)
      }
    }
  }

  return {
    isUp: () => isUp,
    async listen(app, host, port) {
      await app.listen({ host, port }).catch((error: unknown) => {
        const isTaken = hasCode(error, 'EADDRINUSE')
        const reason = isTaken ? holderOf(port) : errorMessage(error)
        throw new InvalidInput(`Cannot listen on ${host}:${port}: ${reason}`, {
          code: 'cannot_listen',
          cause: error,
          hint: isTaken
            ? 'stop that process, or choose another port: --port N (0 picks a free one), or "port" in section [server] of bellwether.toml'
            : 'choose another address (--host) or port (--port 0 picks a free one)',
        })
      })
      const address = app.server.address() as AddressInfo
      const { server } = app
      server.on('error', (error) => fail(error, server, host, address.port))
      let late = 0
      void loop({ name: 'receiver probe', intervalMs: probeIntervalMs, clock, log, signal, steady: true }, async () => {
        if (!isUp) return
        const error = await connectionError(host, address.port)
        if (error instanceof Error && 'code' in error && probeErrors.has(error.code))
          return log.warn({ err: error }, 'cannot probe the receiver')
        late = error === 'late' ? late + 1 : 0
        if (error instanceof Error) fail(error, server, host, address.port)
        else if (late >= lateProbesMax)
          fail(new Error(`no connection within ${probeTimeoutMs} ms`), server, host, address.port)
      })
      const scheme = server instanceof TlsServer ? 'https' : 'http'
      return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${address.port}`
    },
  }
}

export function holderOf(port: number): string {
  const holder = portHolder(port)
  return holder === undefined
    ? 'another process uses the port'
    : `process ${holder.pid} uses the port (${plain(holder.command)})`
}

/** Connects to this server as a client does. */
function connectionError(host: string, port: number): Promise<Error | 'late' | undefined> {
  return new Promise((resolve) => {
    const everyAddress: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }
    const socket = connect({ host: everyAddress[host] ?? host, port, timeout: probeTimeoutMs })
    const end = (result: Error | 'late' | undefined) => {
      socket.destroy()
      resolve(result)
    }
    socket.once('connect', () => end(undefined))
    socket.once('timeout', () => end('late'))
    socket.once('error', end)
  })
}

function bind(server: NetServer, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const listening = () => {
      server.off('error', refused)
      resolve()
    }
    const refused = (error: Error) => {
      server.off('listening', listening)
      reject(error)
    }
    server.once('listening', listening).once('error', refused)
    server.listen({ host, port })
  })
}
