/** Binds an HTTP app to an address. */
import type { AddressInfo } from 'node:net'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { makeApp } from '../../http/app.js'

/** Whether only this machine can reach the address. */
export const isLoopback = (host: string) => /^(?:127(?:\.\d{1,3}){3}|::1|localhost)$/.test(host)

/** Returns the URL under which the app answers; port 0 picks a free one. */
export async function listen(app: ReturnType<typeof makeApp>, host: string, port: number): Promise<string> {
  await app.listen({ host, port }).catch((error: unknown) => {
    const isTaken = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE'
    const reason = isTaken ? 'another process uses the port' : errorMessage(error)
    throw new InvalidInput(`Cannot listen on ${host}:${port}: ${reason}`, {
      code: 'cannot_listen',
      cause: error,
      hint: 'choose another address (--host) or port (--port 0 picks a free one)',
    })
  })
  const address = app.server.address() as AddressInfo
  return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`
}
