/** Tests the recovery table. */
import { Retryable, Terminal } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { failureKind, pauseMaxMs, recoveryFor, SessionObsolete } from './recovery.js'

const after = (kind: Parameters<typeof recoveryFor>[0]['kind'], consecutive = 1, stopping = false) =>
  recoveryFor({ kind, consecutive, stopping })

describe('after a failure', () => {
  it('[V1.6] retries at once after an obsolete session', () => {
    expect(after('session_obsolete', 9)).toEqual({ next: 'retry', pauseMs: 0, isCritical: false })
  })

  it('[V1.6] waits 5 s after a runtime error or a crashed task, then twice as long, up to 60 s', () => {
    for (const kind of ['runtime_error', 'task_crash'] as const) {
      expect([1, 2, 3, 4].map((consecutive) => after(kind, consecutive).pauseMs)).toEqual([
        5_000, 10_000, 20_000, 40_000,
      ])
    }
  })

  it('[V1.6] a cancellation ends while stopping and continues otherwise', () => {
    expect(after('cancelled', 1, true).next).toBe('end')
    expect(after('cancelled', 1, false)).toMatchObject({ next: 'continue', pauseMs: 0 })
  })

  it('[V5.2] from the fifth consecutive failure on it is critical and retried at the longest pause without end', () => {
    expect(after('runtime_error', 4).isCritical).toBe(false)
    for (const consecutive of [5, 6, 100, 1e9]) {
      expect(after('task_crash', consecutive)).toEqual({ next: 'retry', pauseMs: pauseMaxMs, isCritical: true })
    }
  })

  it('[V1.6] classifies errors by their type', () => {
    expect(failureKind(new SessionObsolete('over'), true)).toBe('session_obsolete')
    expect(failureKind(new DOMException('x', 'AbortError'), true)).toBe('cancelled')
    expect(failureKind(new Retryable('x', { code: 'unreachable' }), true)).toBe('task_crash')
    expect(failureKind(new Terminal('x', { code: 'refused' }), false)).toBe('runtime_error')
    expect(failureKind('no error at all', false)).toBe('runtime_error')
  })
})
