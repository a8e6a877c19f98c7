import { expect, it } from 'vitest'
import type { Task } from '../log/task.js'
import { resumePromptFor } from './prompt.js'

const taskOf = (fields: Readonly<Record<string, unknown>>) =>
  ({ taskId: 'T-1', title: 'Fix it', status: 'ready', fields }) as unknown as Task
const spawn = {
  runId: 'r1',
  agent: 'coder',
  agentTurnId: 't1',
  reasonCode: 'verify_failed',
  error: 'A check failed',
  metrics: {},
}

it('says what failed and shows the output of the check to a run that resumes a session', () => {
  const checks = [{ check: 'npm test', problem: 'exited with 1', exitCode: 1, durationMs: 5, output: '1 of 3 failed' }]
  const prompt = resumePromptFor(taskOf({ spawn, failure: { runId: 'r1', files: [], checks } }))
  expect(prompt).toContain('The last run of task T-1 (coder) was not accepted: verify_failed: A check failed')
  expect(prompt).toContain('The end of the output of npm test, which exited with 1:\n```\n1 of 3 failed\n```')
  expect(prompt).not.toContain('Fix it')
})

it('is bounded, and absent if no run has failed', () => {
  const output = 'x'.repeat(4_000)
  const checks = Array.from({ length: 5 }, () => ({ check: 'c', problem: 'p', exitCode: 1, durationMs: 1, output }))
  const prompt = resumePromptFor(taskOf({ spawn, failure: { runId: 'r1', files: [], checks } }))
  expect(prompt!.length).toBeLessThan(8_100)
  expect(resumePromptFor(taskOf({}))).toBeUndefined()
  expect(resumePromptFor(taskOf({ spawn: { ...spawn, reasonCode: null } }))).toBeUndefined()
})

const feedback = {
  by: 'ann',
  at: '2029-01-01T00:00:00.000Z',
  reason: 'name the limit',
  comments: [
    { path: 'src/a.ts', line: 12, quote: '+const x = 7', text: 'Why seven?' },
    { path: 'README.md', line: null, quote: '', text: 'Describe the option.' },
  ],
}
const written = [
  'ann looked at the work so far and asks for changes: name the limit',
  '- src/a.ts:12 (+const x = 7): Why seven?',
  '- README.md: Describe the option.',
].join('\n')

it('has what a person wrote about the last run, also if its checks passed', () => {
  const passed = { ...spawn, reasonCode: null }
  expect(resumePromptFor(taskOf({ spawn: passed, feedback }))).toContain(written)
  expect(resumePromptFor(taskOf({ spawn: passed, feedback: 'of another program' }))).toBeUndefined()
})
