/**
 * One JSON message to somebody else's server. Always: a signal ends it, the answer's body is not read, redirects are not
 * followed. An answer that is not 2xx is an error that carries its status; whether to try again is left to retry.ts.
 */
import { Retryable, Terminal } from '@bellwether/protocol'

export type PostJson = (url: string, body: unknown, signal: AbortSignal) => Promise<void>

export const postJson: PostJson = async (url, body, signal) => {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    redirect: 'manual',
    signal,
  })
  await answer.body?.cancel()
  if (answer.status >= 200 && answer.status < 300) return
  const { status } = answer
  const afterMs = Number(answer.headers.get('retry-after') ?? 0) * 1_000
  const trouble = `the webhook answered ${status}`
  // A server that says when to come back is heeded; only seconds are understood.
  if (afterMs > 0) throw Object.assign(new Retryable(trouble, { code: 'webhook_refused', afterMs }), { status })
  throw Object.assign(new Error(trouble), { status })
}

/** Refuses what could never be posted to, before the first alert finds out. */
export function webhookUrl(text: string): string {
  if (/^https?:$/.test(URL.canParse(text) ? new URL(text).protocol : '')) return text
  throw new Terminal(`${JSON.stringify(text)} is no http or https address`, {
    code: 'bad_webhook_url',
    hint: 'mend alert_webhook_url in [board] of bellwether.toml',
  })
}
