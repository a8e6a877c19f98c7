/** Whether a server accepts TCP connections. Sends nothing. */
import { createConnection } from 'node:net'
import { exchangeTimeoutMs } from '../../ports/retry.js'

export function isReachable(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host, port, timeout: exchangeTimeoutMs })
    const end = (reachable: boolean) => {
      socket.destroy()
      resolve(reachable)
    }
    socket
      .once('connect', () => end(true))
      .once('error', () => end(false))
      .once('timeout', () => end(false))
  })
}
