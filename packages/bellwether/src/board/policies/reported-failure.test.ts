import { describe, expect, it } from 'vitest'
import { reportedFailure } from './reported-failure.js'

const codeOf = (deliverable: Parameters<typeof reportedFailure>[0]) => reportedFailure(deliverable)?.reasonCode ?? null

describe('reported failures', () => {
  it('[H6.5] a report of failure is a failure in every form that agents use, whatever files it claims', () => {
    const forms: Record<string, readonly object[]> = {
      spawn_failed: [
        ...[
          'failed',
          'FAILED',
          'error',
          'Error: no such module',
          'timeout',
          'timed_out',
          'cancelled',
          'canceled',
          'aborted',
        ].map((status) => ({ status })),
        ...['task failed because of the tests', 'completed with errors', 'failure', 'crashed', 'unable to build'].map(
          (status) => ({ status }),
        ),
        { ok: false },
        { OK: 'false' },
        { success: false },
        { success: 0 },
        { completed: false },
        { error: 'boom' },
        { error: { message: 'boom' } },
        { error: { code: 7 } },
        { is_error: true, subtype: 'error_max_turns' },
        { outcome: 'failed' },
        { exit_code: 2 },
        { result: { status: 'failed' } },
        { output: { response: { ok: false } } },
        { status: 'done', ok: false },
        { text: 'Summary\n```json\n{"status": "failed"}\n```' },
        { text: 'I tried.\n**Status:** failed\n' },
        { text: `Status: failed\n${'I tried this and that.\n'.repeat(40)}` },
        { text: 'An example:\n```json\n{"ok": true}\n```\nThe result:\n```json\n{"status": "failed"}\n```\n' },
      ],
      blocked_signal: [
        { status: 'blocked' },
        { status: 'Blocked: no credentials' },
        { blocked: true },
        { blocked: 'no key' },
        { status: 'needs_input' },
        { text: '[BLOCKED] no access to the repository' },
      ],
      incomplete_output: [
        { status: 'in_progress' },
        { status: 'partial' },
        { status: 'not done' },
        { status: 'partially completed' },
        { status: 'progress' },
      ],
    }
    for (const [reasonCode, reports] of Object.entries(forms))
      for (const report of reports)
        expect([report, codeOf({ files: ['src/a.ts'], ...report })]).toEqual([report, reasonCode])
  })

  it('[H6.5] a report of success is not taken for a failure', () => {
    const reports: readonly (object | null)[] = [
      null,
      {},
      { status: 'done' },
      { status: 'completed' },
      { status: 'ok', error: null },
      { status: 'success', error: '' },
      { ok: true, error: 'none' },
      { success: true, errors: [] },
      { blocked: false },
      { blocked: null },
      { status: 'Added error handling to the client' },
      { status: 'completed, 0 failed' },
      { status: 'passed without errors' },
      { passed: 0, failed: 0 },
      { failed: 3 },
      { exit_code: 0 },
      { result: 'The parser now rejects unterminated strings, and a test covers the failed case in the old grammar.' },
      { text: 'The build failed at first; I fixed it. All tests pass.' },
      { text: 'x'.repeat(200_000) },
      { text: 'The API responds:\n```json\n{"error": "not_found"}\n```\nI documented it in docs/api.md.' },
      { text: 'Example of a report:\n```\nstatus: failed\n```\nAll done.' },
      { text: '> status: failed\nThat was the old message; it is now clear.' },
    ]
    for (const report of reports) expect([report, codeOf(report as Record<string, unknown>)]).toEqual([report, null])
  })

  it('the detail of a reported failure names the reason that the agent gave', () => {
    expect(reportedFailure({ status: 'blocked', reason: 'no access' })?.detail).toBe('no access')
    expect(reportedFailure({ status: 'failed', error: 'tests are red' })?.detail).toContain('tests are red')
    expect(reportedFailure({ ok: false, message: 'no quota' })?.detail).toContain('no quota')
    expect(reportedFailure({ error: 'x'.repeat(10_000) })!.detail.length).toBeLessThan(2_100)
  })
})

it('decides about text of any form in one pass over it', () => {
  const long = 60_000
  const texts = [
    `${' '.repeat(long)}x`,
    `${'\n'.repeat(long)}x`,
    `\`\`\`\n${'\n'.repeat(long)}x`,
    '```a\n'.repeat(long / 5),
    `${'*'.repeat(long)}x`,
    `status${' '.repeat(long)}x`,
  ]
  for (const text of texts) {
    expect(reportedFailure({ text })).toBeNull()
    expect(reportedFailure({ error: text })).toMatchObject({ reasonCode: 'spawn_failed' })
  }
  expect(reportedFailure({ text: `done\n\`\`\`json\n{"success": false}\n\`\`\`\n\n` })).toMatchObject({
    reasonCode: 'spawn_failed',
  })
  expect(reportedFailure({ text: `\`\`\`json\n{"success": false}\n\`\`\`\nThat was an example.` })).toBeNull()
})
