/**
 * Posts one JSON message to an external server. It does not read the response body and does not follow redirects. A response
 * other than 2xx throws an error with the status; retry.ts decides whether to retry.
 */
import { Retryable, Terminal } from '@bellwether/protocol'

export type PostJson = (url: string, body: unknown, signal: AbortSignal) => Promise<void>

export const postJson: PostJson = async (url, body, signal) => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    redirect: 'manual',
    signal,
  })
  await response.body?.cancel()
  if (response.status >= 200 && response.status < 300) return
  const { status } = response
  const afterMs = Number(response.headers.get('retry-after') ?? 0) * 1_000
  const message = `The webhook responded with status ${status}`
  // Retry-After is respected if it is a number of seconds.
  if (afterMs > 0) throw Object.assign(new Retryable(message, { code: 'webhook_refused', afterMs }), { status })
  throw Object.assign(new Error(message), { status })
}

/** Checks the configured URL at start, before the first message needs it. */
export function webhookUrl(text: string, section: 'notify' | 'pmo', key: string): string {
  if (/^https?:$/.test(URL.canParse(text) ? new URL(text).protocol : '')) return text
  throw new Terminal(`Invalid ${key}: ${JSON.stringify(text)} must be an http or https URL`, {
    code: 'bad_webhook_url',
    hint: `Fix ${key} in [${section}] of bellwether.toml.`,
  })
}
