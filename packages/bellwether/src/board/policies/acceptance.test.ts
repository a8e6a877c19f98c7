import { defined } from '@bellwether/base'
import { describe, expect, it } from 'vitest'
import type { CommandResult } from '../../ports/processes/run-command.js'
import type { FileEvidence } from '../ports.js'
import type { Task } from '../log/task.js'
import { defaultAcceptance, type AcceptancePolicy } from './acceptance-policy.js'
import { accept, claimsOf, commandsFor, requirementsFor, roleOf, type Deliverable } from './acceptance.js'

const root = '/srv/root'
const policy = defaultAcceptance
const task = (fields: Record<string, unknown> = {}): Task =>
  ({ taskId: 'T-1', assignee: 'coder', runs: [], fields }) as unknown as Task
const passed: CommandResult = { exitCode: 0, signal: null, timedOut: false, durationMs: 12, output: 'ok' }
const present = (path: string): FileEvidence => ({ path, found: 'present', size: 10, sha256: 'ab', changedSince: true })

function judge(
  deliverable: Deliverable | null,
  files: readonly FileEvidence[] = [],
  commands: readonly CommandResult[] = [],
  given: { policy?: AcceptancePolicy; task?: Task; waitedMs?: number } = {},
) {
  return accept(given.policy ?? policy, given.task ?? task(), deliverable, {
    claims: claimsOf(deliverable, root),
    files,
    commands,
    ...defined({ waitedMs: given.waitedMs }),
  })
}

describe('acceptance', () => {
  it('done without evidence is incomplete output', () => {
    for (const deliverable of [null, {}, { status: 'done' }, { summary: 'All done!', tests: 'pass' }]) {
      const judgement = judge(deliverable)
      expect(judgement).toMatchObject({
        verdict: 'incomplete_output',
        reasons: [expect.stringContaining('done without evidence')],
      })
    }
  })

  it('a claimed file that exists and has changed is accepted and recorded with size and hash', () => {
    expect(judge({ files: ['src/a.ts'] }, [present('src/a.ts')])).toEqual({
      verdict: 'done',
      evidence: { files: [{ path: 'src/a.ts', size: 10, sha256: 'ab' }], commands: [], fields: [] },
    })
  })

  it('claimed files that are missing, unchanged, of unknown age or too small are rejected', () => {
    const cases: readonly [FileEvidence, string][] = [
      [{ path: 'a', found: 'missing' }, 'is claimed but does not exist'],
      [{ path: 'a', found: 'present', size: 10, changedSince: false }, 'has not changed since the run started'],
      [{ path: 'a', found: 'present', size: 10 }, 'no change token'],
      [{ path: 'a', found: 'present', size: 4, changedSince: true }, 'the minimum is 5'],
    ]
    const strict = { ...policy, default: { ...policy.default, minFileBytes: 5 } }
    for (const [file, reason] of cases)
      expect(judge({ files: ['a'] }, [file], [], { policy: strict })).toMatchObject({
        verdict: 'incomplete_output',
        reasons: [expect.stringContaining(reason)],
      })
  })

  it('a file that cannot be inspected yet means wait, never missing; after the maximum wait a human is asked', () => {
    const unready: FileEvidence = { path: 'a', found: 'not_ready' }
    expect(judge({ files: ['a'] }, [unready])).toMatchObject({ verdict: 'wait', overdue: false })
    expect(judge({ files: ['a'] }, [])).toMatchObject({ verdict: 'wait' })
    expect(judge({ files: ['a', 'b'] }, [unready, present('b')])).toMatchObject({ verdict: 'wait' })
    expect(judge({ files: ['a'] }, [unready], [], { waitedMs: 600_000 })).toMatchObject({
      verdict: 'wait',
      overdue: true,
    })
    // A missing file does not wait for the others.
    expect(judge({ files: ['a', 'b'] }, [unready, { path: 'b', found: 'missing' }]).verdict).toBe('incomplete_output')
  })

  it('all verify commands must run and pass in time', () => {
    const checked = task({ verify: ['npm test', { command: ['make', 'lint'], timeoutSec: 5 }] })
    expect(commandsFor(policy, checked)).toEqual([
      { command: 'npm test', timeoutSec: 120, isOwn: true },
      { command: ['make', 'lint'], timeoutSec: 5, isOwn: true },
    ])
    expect(judge({}, [], [passed, passed], { task: checked }).verdict).toBe('done')
    const cases: readonly [CommandResult | undefined, string][] = [
      [undefined, 'did not run'],
      [{ ...passed, exitCode: 1 }, 'exited with 1'],
      [{ ...passed, exitCode: null, timedOut: true }, 'took longer'],
      [{ ...passed, exitCode: null, signal: 'SIGKILL' }, 'killed by SIGKILL'],
      [{ ...passed, exitCode: null, failure: 'no such program' }, 'could not start'],
      [{ ...passed, timedOut: true }, 'took longer'],
    ]
    for (const [second, reason] of cases)
      expect(judge({}, [], second === undefined ? [passed] : [passed, second], { task: checked })).toMatchObject({
        verdict: 'incomplete_output',
        reasons: [expect.stringContaining(reason)],
      })
  })

  it('a command that failed in a sandbox says so, and how it runs without one', () => {
    const file = 'config/acceptance-policy.json'
    const strict: AcceptancePolicy = {
      ...policy,
      default: { ...policy.default, commands: [{ command: 'make' }] },
      checks: { unit: { command: 'npm test' } },
    }
    const checked = task({ checks: ['unit'], verify: ['docker ps'] })
    const noteOf = (before: number, isSandboxed: boolean) => {
      const failed = { ...passed, exitCode: 1, isSandboxed }
      const judgement = judge({}, [], [...Array.from({ length: before }, () => passed), failed], {
        policy: strict,
        task: checked,
      })
      return judgement.verdict === 'incomplete_output' ? judgement.problems.checks[0]!.note : 'accepted'
    }
    const sandbox =
      'It ran in a sandbox, without Docker, the ports of this machine and the home folder. If it needs them, '
    expect([0, 1, 2].map((before) => noteOf(before, true))).toEqual([
      `${sandbox}add "sandbox": "none" to this command in ${file}.`,
      `${sandbox}add "sandbox": "none" to check "unit" in ${file}.`,
      `${sandbox}define it under "checks" in ${file} with "sandbox": "none", and select it by its name (--check).`,
    ])
    expect(noteOf(1, false)).toBeNull()
  })

  it('commands of a deliverable never run, and invalid commands of a task fail acceptance', () => {
    expect(commandsFor(policy, task())).toEqual([])
    expect(judge({ verify: ['true'], commands: ['true'] }, [], [passed]).verdict).toBe('incomplete_output')
    const broken = task({ verify: [{ comand: 'npm test' }, 7] })
    expect(judge({ files: ['a'] }, [present('a')], [], { task: broken })).toMatchObject({
      verdict: 'incomplete_output',
      reasons: ['the task has 2 invalid verify commands'],
    })
  })

  it('each role has its own requirements', () => {
    expect(roleOf(task({ role: 'Invest-Analyst' }))).toBe('invest-analyst')
    expect(requirementsFor(policy, 'constructor')).toEqual(policy.default)
    const analyst = task({ role: 'invest-analyst' })
    expect(judge({ summary: 'Buy nothing.' }, [], [], { task: analyst }).verdict).toBe('done')
    for (const empty of [{}, { summary: '  ' }, { summary: [] }, { summary: null }])
      expect(judge(empty, [], [], { task: analyst }).verdict).toBe('incomplete_output')
    expect(judge({}, [], [], { task: task({ role: 'human' }) }).verdict).toBe('done')
    const strict: AcceptancePolicy = { ...policy, roles: { coder: { minFiles: 2, minCommands: 1 } } }
    expect(judge({ files: ['a'] }, [present('a')], [], { policy: strict })).toMatchObject({
      reasons: ['2 files required, 1 found', '1 passing verify command required, 0 passed'],
    })
  })

  it('a file counts once under any spelling, and never outside the root', () => {
    expect(claimsOf({ files: ['a', './a', 'b/../a', { path: `${root}/a` }] }, root)).toEqual({
      files: ['a'],
      refused: [],
    })
    const outside = ['../a', '/etc/passwd', 'b/../../a', '..', '.', '', root, 'a\0b', 7, null, { path: 3 }]
    for (const path of outside) {
      const { files, refused } = claimsOf({ files: [path] }, root)
      expect([path, files, refused.length]).toEqual([path, [], 1])
      expect(judge({ files: [path, 'ok'] }, [present('ok')]).verdict).toBe('incomplete_output')
    }
    expect(claimsOf({ files: Array.from({ length: 9_999 }, (_, index) => `f${index}`) }, root).files).toHaveLength(500)
  })
})
