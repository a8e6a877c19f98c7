import { expect, it } from 'vitest'
import { bodyResetMs, durationMs, resetMs } from '../../ports/model/reset.js'
import { limitIn } from './limit-message.js'

const now = Date.parse('2026-11-18T12:00:00Z')
const at = (text: string, zone = 'UTC') => limitIn(text, now, zone)?.until?.toISOString()

it.each([
  // Claude Code
  ['Claude AI usage limit reached|1795003200', '2026-11-18T12:00:00.000Z', undefined],
  ['Claude AI usage limit reached|1795010400', '2026-11-18T14:00:00.000Z', '2026-11-18T14:00:00.000Z'],
  ['5-hour limit reached ∙ resets 3pm', '', '2026-11-18T15:00:00.000Z'],
  ['5-hour limit reached ∙ resets 11am', '', '2026-11-19T11:00:00.000Z'],
  ["You've hit your limit · resets 3:30am (Asia/Calcutta)", '', '2026-11-18T22:00:00.000Z'],
  ["You've hit your session limit · resets 12pm (America/New_York)", '', '2026-11-18T17:00:00.000Z'],
  ['Claude usage limit reached. Your limit will reset at 3pm (America/Bogota).', '', '2026-11-18T20:00:00.000Z'],
  ['Weekly limit reached ∙ resets Nov 21 at 5pm', '', '2026-11-21T17:00:00.000Z'],
  ['Weekly limit reached ∙ resets Jan 2 at 5pm', '', '2027-01-02T17:00:00.000Z'],
  ["You've hit your limit · resets Apr 23 at 4pm (America/Recife)", '', '2027-04-23T19:00:00.000Z'],
  ['You’ve hit your limit for Claude messages. Limits will reset at 9:30 PM.', '', '2026-11-18T21:30:00.000Z'],
  ["You've reached your session limit · resets 3pm (Europe/Copenhagen)", '', '2026-11-18T14:00:00.000Z'],
  ['Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).', '', '2026-11-18T18:00:00.000Z'],
  // Across the end of daylight saving time: 2 a.m. on 2027-03-28 does not exist in Berlin.
  ['Weekly limit reached ∙ resets Mar 28 at 3am (Europe/Berlin)', '', '2027-03-28T01:00:00.000Z'],
  // Codex
  [
    "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 2 days 17 hours 14 minutes.",
    '',
    '2026-11-21T05:14:00.000Z',
  ],
  ["ERROR: You've hit your usage limit. Visit https://x.test or try again at 7:58 PM.", '', '2026-11-18T19:58:00.000Z'],
  // In the minute of the reset, whose seconds it does not say.
  ['You’ve hit your usage limit. Visit https://x.test or try again at 12:00 PM.', '', '2026-11-18T12:01:00.000Z'],
  ['You’ve hit your usage limit. Try again at Nov 18th, 2026 12:00 PM.', '', '2026-11-18T12:01:00.000Z'],
  ["You've hit your usage limit. Try again at Nov 20th, 2026 3:05 PM.", '', '2026-11-20T15:05:00.000Z'],
  [
    '■ You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit\nhttps://chatgpt.com/codex/settings/usage to purchase more credits or try again at 2:51 PM.',
    '',
    '2026-11-18T14:51:00.000Z',
  ],
  [
    "You've hit your usage limit. To get more access now, send a request to your admin or try again in 3 days 6 hours 57 minutes.",
    '',
    '2026-11-21T18:57:00.000Z',
  ],
  ["You've hit your usage limit. Weekly limit (resets 16:21)", '', '2026-11-18T16:21:00.000Z'],
  ['{"type":"usage_limit_reached","resets_in_seconds":13872}', '', '2026-11-18T15:51:12.000Z'],
  // Gemini
  [
    'You have exhausted your capacity on this model. Your quota will reset after 2h19m37s.',
    '',
    '2026-11-18T14:19:37.000Z',
  ],
  ['[API Error: {"status":"RESOURCE_EXHAUSTED","retryDelay":"34.5s"}]', '', '2026-11-18T12:00:34.500Z'],
  ['Usage limit reached for gemini-3-flash-preview. Access resets at 10:57 PM GMT-3.', '', '2026-11-19T01:57:00.000Z'],
  ['Usage limit reached for all Pro models.\nAccess resets at 11:00 AM GMT+5:30.', '', '2026-11-19T05:30:00.000Z'],
  ["Quota exceeded for quota metric 'Requests'. Expected quota reset within 24h.", '', '2026-11-19T12:00:00.000Z'],
  ['You have reached your daily gemini-2.5-pro quota limit.', '', undefined],
  ['{"code":429,"message":"You exceeded your current quota, please check your plan"}', '', undefined],
  ['Quota exceeded for quota metric X. Please retry in 5m.', '', '2026-11-18T12:05:00.000Z'],
  // A limit without a reset, and a reset that has passed.
  ['Resource has been exhausted (RESOURCE_EXHAUSTED)', '', undefined],
])('reads the limit and the reset in %s', (text, _stamp, until) => {
  expect(limitIn(text, now, 'UTC')).toMatchObject({ reason: expect.any(String) })
  expect(at(text)).toBe(until)
})

it('finds no limit in other failures, and keeps only the line that names it', () => {
  const retried =
    'Attempt 1 failed: You have exhausted your capacity on this model. Retrying after 6173ms...\nnot found'
  for (const text of [
    '',
    retried,
    'API Error: 529 the model is overloaded',
    'the rate of change has no limit',
    'exit code 1',
  ])
    expect(limitIn(text, now)).toBeUndefined()
  expect(limitIn('noise\n5-hour limit reached ∙ resets 3pm\nmore', now, 'UTC')?.reason).toBe(
    '5-hour limit reached ∙ resets 3pm',
  )
})

it('reads the reset of a provider from its headers, else from its body', () => {
  const soon = new Date(now + 90_000).toISOString()
  expect(resetMs({ 'retry-after': '7' }, '{"retryDelay":"34s"}', now)).toBe(7_000)
  expect(resetMs({ 'anthropic-ratelimit-unified-reset': String(now / 1_000 + 60) }, '', now)).toBe(60_000)
  const tokens = { 'anthropic-ratelimit-tokens-remaining': '0', 'anthropic-ratelimit-tokens-reset': soon }
  expect(resetMs({ ...tokens, 'anthropic-ratelimit-requests-remaining': '5' }, '', now)).toBe(90_000)
  expect(resetMs({ 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '6m0s' }, '', now)).toBe(360_000)
  expect(resetMs({ 'x-ratelimit-remaining-tokens': '9', 'x-ratelimit-reset-tokens': '6m0s' }, '', now)).toBe(0)
  expect(resetMs({}, '{"error":{"details":[{"retryDelay": "34s"}]}}', now)).toBe(34_000)
  expect(bodyResetMs(`{"resets_at":${now / 1_000 + 5}}`, now)).toBe(5_000)
  expect(durationMs('1d 2h 3m 4s')).toBe(93_784_000)
  expect(durationMs('soon')).toBe(0)
})
