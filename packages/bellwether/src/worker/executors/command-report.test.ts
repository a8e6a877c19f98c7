import { expect, it } from 'vitest'
import { reportOf } from './command-report.js'
import type { CommandRun } from './command-run.js'

const ran = (code: number, change: Partial<CommandRun> = {}): CommandRun => ({
  exit: { how: 'exited', code },
  output: {},
  stdout: '',
  stderr: '',
  stdoutBytes: 0,
  stderrBytes: 0,
  durationMs: 300,
  survivors: [],
  ...change,
})
const textOf = (run: CommandRun) => {
  const { deliver, error } = reportOf(run, ['claude'], [])
  return [error, 'text' in deliver ? deliver.text : undefined]
}

it('the report of a command names the signal that its exit code stands for', () => {
  expect(textOf(ran(137))).toEqual([
    'command_exit_137',
    'The agent exited with 137, as after SIGKILL: the machine may have run out of memory (command "claude", 0.3 s).',
  ])
  expect(textOf(ran(143))[1]).toMatch(/^The agent exited with 143, as after SIGTERM \(/)
  for (const code of [1, 127, 128, 255]) expect(textOf(ran(code))[1]).toMatch(new RegExp(`exited with ${code} \\(`))
  // Gemini exits with the status of its API: 400 is 144.
  const failure = '[API Error: API key not valid. Please pass a valid API key.]'
  expect(textOf(ran(144, { output: { failure } }))[1]).toMatch(/^The agent exited with 144: \[API Error: API key/)
})

it('the report of a program without a login says where to sign in', () => {
  const failure = 'Not logged in · Please run /login'
  expect(textOf(ran(1, { output: { failure } }))[1]).toMatch(
    /^The agent exited with 1: Not logged in .*\n\nStart claude in a terminal as the account that runs `up`, .*ANTHROPIC_API_KEY/,
  )
  expect(textOf(ran(1, { output: { failure: 'API Error: 529' } }))[1]).not.toContain('terminal')
  const stderr =
    'When using Gemini API, you must specify the GEMINI_API_KEY environment variable.\nUpdate your environment!'
  expect(textOf(ran(41, { stderr }))[1]).toMatch(
    /^The agent exited with 41: When using .*\n\nSet GEMINI_API_KEY in the/,
  )
  const codex = 'Missing environment variable: `CODEX_API_KEY`.'
  expect(textOf(ran(1, { output: { failure: codex } }))[1]).toMatch(/: Missing .*\n\nSet CODEX_API_KEY in the/)
})
