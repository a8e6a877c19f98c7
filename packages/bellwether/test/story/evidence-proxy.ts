/**
 * An HTTP proxy between the autopilot and the view. A test waits for the next request of a method and holds it: then the
 * autopilot has asked, and nothing has answered. Other requests pass.
 */
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import { listen } from '../support/servers/listen.js'

interface HeldRequest {
  /** Sends the request on, and resolves when it is on its way. The response passes if there is one. */
  forward(): Promise<void>
  /** Whether the client got a response. */
  readonly answered: boolean
}

export interface EvidenceProxy {
  readonly url: string
  /** The next request of this method for evidence. */
  next(method: 'GET' | 'POST'): Promise<HeldRequest>
  close(): Promise<void>
}

export async function openEvidenceProxy(target: string): Promise<EvidenceProxy> {
  const waiting: { readonly method: string; readonly take: (held: HeldRequest) => void }[] = []

  function forward(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    return new Promise((sent) => {
      const outgoing = request(`${target}${incoming.url}`, { method: incoming.method!, headers: incoming.headers })
      outgoing.on('response', (answer) => {
        response.writeHead(answer.statusCode!, answer.headers)
        answer.on('error', () => response.destroy()).pipe(response)
      })
      outgoing.on('error', () => {
        response.destroy()
        sent()
      })
      outgoing.on('finish', sent)
      incoming.pipe(outgoing)
    })
  }

  const server = createServer((incoming, response) => {
    response.on('error', () => undefined) // the client was killed
    const at = waiting.findIndex((one) => one.method === incoming.method && incoming.url!.includes('/evidence'))
    const [held] = at < 0 ? [] : waiting.splice(at, 1)
    if (held === undefined) void forward(incoming, response)
    else
      held.take({
        forward: () => forward(incoming, response),
        get answered() {
          return response.headersSent
        },
      })
  })
  const port = await listen(server)
  return {
    url: `http://127.0.0.1:${port}`,
    next: (method) => new Promise((take) => waiting.push({ method, take })),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
