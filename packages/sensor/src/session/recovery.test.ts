/** The table of what follows a failure. */
import { Retryable, Terminal } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { kindOf, pauseMaxMs, recoveryFor, SessionObsolete } from './recovery.js'

const after = (kind: Parameters<typeof recoveryFor>[0]['kind'], consecutive = 1, stopping = false) =>
  recoveryFor({ kind, consecutive, stopping })

describe('after a failure', () => {
  it('[V1.6] an obsolete session is replaced at once', () => {
    expect(after('session_obsolete', 9)).toEqual({ next: 'retry', pauseMs: 0, isCritical: false })
  })

  it('[V1.6] a runtime error and a crashed task wait 5 s, then twice as long, up to 60 s', () => {
    for (const kind of ['runtime_error', 'task_crash'] as const) {
      expect([1, 2, 3, 4].map((consecutive) => after(kind, consecutive).pauseMs)).toEqual([
        5_000, 10_000, 20_000, 40_000,
      ])
    }
  })

  it('[V1.6] a cancel ends while stopping and goes on otherwise', () => {
    expect(after('cancelled', 1, true).next).toBe('end')
    expect(after('cancelled', 1, false)).toMatchObject({ next: 'go_on', pauseMs: 0 })
  })

  it('[V5.2] from the fifth failure in a row it is critical, at the longest pause, for ever, and never an end', () => {
    expect(after('runtime_error', 4).isCritical).toBe(false)
    for (const consecutive of [5, 6, 100, 1e9]) {
      expect(after('task_crash', consecutive)).toEqual({ next: 'retry', pauseMs: pauseMaxMs, isCritical: true })
    }
  })

  it('[V1.6] errors are told apart by what they are', () => {
    expect(kindOf(new SessionObsolete('over'), true)).toBe('session_obsolete')
    expect(kindOf(new DOMException('x', 'AbortError'), true)).toBe('cancelled')
    expect(kindOf(new Retryable('x', { code: 'unreachable' }), true)).toBe('task_crash')
    expect(kindOf(new Terminal('x', { code: 'refused' }), false)).toBe('runtime_error')
    expect(kindOf('no error at all', false)).toBe('runtime_error')
  })
})
