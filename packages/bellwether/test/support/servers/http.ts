/** Sends one HTTP request in a test and returns the response, parsed if it is JSON. */
import { request, type Agent, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'

export interface TestResponse<Body> {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** An empty object if the response is not JSON. */
  readonly body: Body
}

export async function sendRequest<Body>(
  url: string,
  method: string,
  body: unknown,
  agent: Agent,
  headers: Readonly<Record<string, string>>,
): Promise<TestResponse<Body>> {
  const bytes = body === undefined ? undefined : Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body))
  const ofBody =
    bytes === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(bytes.length) }
  const response = await new Promise<IncomingMessage>((resolve, reject) =>
    request(url, { method, agent, headers: { ...ofBody, ...headers } }, resolve)
      .on('error', reject)
      .end(bytes),
  )
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString()
  const isJson = String(response.headers['content-type']).includes('json') && text !== ''
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text,
    body: (isJson ? JSON.parse(text) : {}) as Body,
  }
}
