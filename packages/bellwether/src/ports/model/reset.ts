/**
 * When a provider says that a limit ends, in milliseconds from now: from the headers of a refused request, or from the text of its body.
 * Pure; 0 if it does not say.
 */

/** The first header that says when to try again decides: it is the provider's own answer to the question. */
export function resetMs(headers: Readonly<Record<string, string>>, body: string, nowMs: number): number {
  return [retryAfterMs(headers, nowMs), exhaustedMs(headers, nowMs), bodyResetMs(body, nowMs)].find((ms) => ms > 0) ?? 0
}

/** From seconds, a date or milliseconds; 0 if absent or invalid. */
export function retryAfterMs(headers: Readonly<Record<string, string>>, nowMs: number): number {
  const precise = Number(headers['retry-after-ms'])
  if (headers['retry-after-ms'] !== undefined && Number.isFinite(precise) && precise > 0) return precise
  const retryAfter = headers['retry-after']
  if (retryAfter === undefined) return 0
  const seconds = Number(retryAfter)
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1_000)
  return untilMs(Date.parse(retryAfter), nowMs)
}

const untilMs = (atMs: number, nowMs: number) => (Number.isNaN(atMs) ? 0 : Math.max(0, atMs - nowMs))

/**
 * `x-ratelimit-reset-tokens: 6m0s` with `x-ratelimit-remaining-tokens: 0`, and Anthropic's headers of the same kind with dates. Of several
 * limits, the last one counts that has nothing left.
 */
function exhaustedMs(headers: Readonly<Record<string, string>>, nowMs: number): number {
  const unified = headers['anthropic-ratelimit-unified-reset']
  if (unified !== undefined) return untilMs(Number(unified) * 1_000, nowMs)
  const resets = Object.entries(headers).map(([name, value]) => {
    const parts = /^(x-ratelimit|anthropic-ratelimit)-(?:reset-(.+)|(.+)-reset)$/.exec(name)
    if (parts === null) return 0
    const [, family = '', after, before] = parts
    const left = headers[after === undefined ? `${family}-${before}-remaining` : `${family}-remaining-${after}`]
    if (left === undefined || Number(left) > 0) return 0
    return durationMs(value) || untilMs(Date.parse(value), nowMs)
  })
  return Math.max(0, ...resets)
}

/** Google's `retryDelay`, and the fields of OpenAI's `usage_limit_reached`. */
export function bodyResetMs(text: string, nowMs: number): number {
  const seconds = /"?resets_in_seconds\\?"?\s*:\s*(\d+)/.exec(text)?.[1]
  if (seconds !== undefined) return Number(seconds) * 1_000
  const at = /"?resets_at\\?"?\s*:\s*(\d{10})\b/.exec(text)?.[1]
  if (at !== undefined) return untilMs(Number(at) * 1_000, nowMs)
  const delay = /"?retryDelay\\?"?\s*:\s*\\?"([\d.]+m?s)\\?"/.exec(text)?.[1]
  return delay === undefined ? 0 : durationMs(delay)
}

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `2h19m37s`, `34.07s`, or `2 days 17 hours 14 minutes`; 0 for other texts. */
export function durationMs(text: string): number {
  const part = /(\d+(?:\.\d+)?)\s*(ms|d|h|m|s)(?:ays?|ours?|in(?:ute)?s?|ec(?:ond)?s?)?(?![a-z])[\s,]*/giy
  let sumMs = 0
  let end = 0
  for (let found = part.exec(text); found !== null; found = part.exec(text)) {
    sumMs += Number(found[1]) * (unitMs[found[2]!.toLowerCase()] ?? 0)
    end = part.lastIndex
  }
  return end === text.length ? sumMs : 0
}
