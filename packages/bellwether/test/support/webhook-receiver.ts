/** A real HTTP server that receives the events of the event webhook. It checks every body against the contract. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { eventWebhookBody } from '@bellwether/protocol/http'
import type { z } from 'zod'

export type ReceivedEvent = z.output<typeof eventWebhookBody>['events'][number]

export interface WebhookReceiver {
  readonly url: string
  /** In the order of arrival, also repeated ones. */
  readonly events: readonly ReceivedEvent[]
  /** Answers the next requests with these statuses, then with 204. The events of a rejected request do not count as received. */
  answer(...statuses: readonly number[]): void
  readonly requests: number
  close(): Promise<void>
}

export async function openWebhookReceiver(): Promise<WebhookReceiver> {
  const events: ReceivedEvent[] = []
  const statuses: number[] = []
  let requests = 0
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      requests += 1
      const status = statuses.shift() ?? 204
      const body = eventWebhookBody.parse(JSON.parse(Buffer.concat(chunks).toString()))
      if (status < 300) events.push(...body.events)
      response.writeHead(status).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/events`,
    events,
    answer: (...next) => void statuses.push(...next),
    get requests() {
      return requests
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
