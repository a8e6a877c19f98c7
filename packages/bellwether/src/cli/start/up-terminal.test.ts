import { systemClock } from '@bellwether/base'
import { describe, expect, it } from 'vitest'
import type { Activity } from '../../runtime/parts/task-activity.js'
import { paintFor } from '../shared/colour.js'
import { activityLine, openUpScreen } from './up-terminal.js'

const paint = paintFor({})
const line = (activity: Activity, columns: number) => activityLine(activity, systemClock, paint, columns).slice(9)
const task = { what: 'task', id: 'T-2', agent: 'coder' } as const

describe('a line of the terminal of up', () => {
  it('says why a turn ended in words', () => {
    const ended = { what: 'turn', id: 'x', agent: 'coder', change: 'ended', outcome: 'failed', elapsedMs: 600 } as const
    expect(line({ ...ended, about: 'command_exit_3' }, 100)).toBe(
      '✗ coder      turn ended: failed in 600 ms (agent exited with 3)  x',
    )
  })

  it('a line of the terminal of up is cut to the terminal, but never in what to type', () => {
    const needs = { ...task, change: 'needs_person', about: 'Add a discount: verify command exited with 1' } as const
    expect(line(needs, 120)).toMatch(/exited with 1\. See: bellwether task show T-2$/)
    expect(line(needs, 80)).toMatch(/^● T-2 +task needs you: Add a di.*[^.]… See: bellwether task show T-2$/)
    expect(line(needs, 80)).toHaveLength(80 - 9)
  })

  it('says what a person is to allow, on one line', () => {
    const asks = { what: 'turn', id: 'x', agent: 'coder', change: 'needs_approval', about: 'Bash: npm test' } as const
    expect(line(asks, 100)).toBe('● coder      needs you to allow Bash: npm test. See: bellwether approvals')
  })

  it('names the command for a file that is invalid or held back', () => {
    let printed = ''
    const out = { columns: 80, write: (text: string) => (printed += text) }
    const logFile = { path: '/x/up.log', limit: () => undefined } as never
    const screen = openUpScreen({ folder: '/x', version: '1', logFile, clock: systemClock, verbose: false, out })
    const problems = [`agents/broken.md:3: ${'x'.repeat(100)}`]
    screen.log('error', { agent_id: 'broken', problems }, 'agent file invalid')
    screen.log('warn', { file: 'a.mjs', accept: 'bellwether trust --agents a.mjs' }, 'control file changed')
    expect(printed.split('\n').map((text) => text.slice(9))).toEqual([
      expect.stringMatching(/^✗ agent file invalid: broken: agents\/b.*… See: bellwether doctor$/),
      '! control file changed: a.mjs. See: bellwether trust --agents a.mjs',
      '',
    ])
  })
})
