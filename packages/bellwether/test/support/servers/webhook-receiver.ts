/** Real HTTP servers that receive webhooks. They check every body against the contract. */
import { createServer } from 'node:http'
import { eventWebhookBody, noticeBody } from '@bellwether/protocol/http'
import type { z } from 'zod'
import { listen } from './listen.js'

type ReceivedEvent = z.output<typeof eventWebhookBody>['events'][number]
type ReceivedNotice = z.output<typeof noticeBody>

interface Receiver {
  readonly url: string
  /** Answers the next requests with these statuses, then with 204. What a rejected request brought does not count as received. */
  answer(...statuses: readonly number[]): void
  readonly requests: number
  close(): Promise<void>
}

export interface WebhookReceiver extends Receiver {
  /** In the order of arrival, also repeated ones. */
  readonly events: readonly ReceivedEvent[]
}

export interface NoticeReceiver extends Receiver {
  /** In the order of arrival, also repeated ones. */
  readonly notices: readonly ReceivedNotice[]
  /** What the Slack channel sent. */
  readonly slack: readonly { readonly text: string }[]
  readonly slackUrl: string
}

export async function openWebhookReceiver(): Promise<WebhookReceiver> {
  const events: ReceivedEvent[] = []
  const receiver = await open((_path, body) => {
    const parsed = eventWebhookBody.parse(body)
    return () => events.push(...parsed.events)
  })
  return Object.assign(receiver, { events })
}

export async function openNoticeReceiver(): Promise<NoticeReceiver> {
  const notices: ReceivedNotice[] = []
  const slack: { text: string }[] = []
  const receiver = await open((path, body) => {
    if (path === '/slack') return () => slack.push(body as { text: string })
    const parsed = noticeBody.parse(body)
    return () => notices.push(parsed)
  })
  return Object.assign(receiver, { notices, slack, slackUrl: new URL('/slack', receiver.url).href })
}

/** `take` checks a body and returns what stores it. */
async function open(take: (path: string, body: unknown) => () => void): Promise<Receiver> {
  const statuses: number[] = []
  let requests = 0
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      requests += 1
      const status = statuses.shift() ?? 204
      const store = take(request.url ?? '', JSON.parse(Buffer.concat(chunks).toString()))
      if (status < 300) store()
      response.writeHead(status).end()
    })
  })
  const port = await listen(server)
  return {
    url: `http://127.0.0.1:${port}/hook`,
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
