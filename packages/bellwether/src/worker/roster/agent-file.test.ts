import { describe, expect, it } from 'vitest'
import { readAgentFile } from './agent-file.js'

const read = (text: string, file = 'agents/ann.md') => readAgentFile(file, text)
const problems = (text: string, file?: string) => {
  const result = read(text, file)
  return 'problems' in result ? result.problems : []
}

describe('readAgentFile', () => {
  it('reads front matter in YAML or TOML, and the instructions', () => {
    const settings = {
      executor: 'command',
      worker_target: 'coders',
      preset: 'claude',
      model: 'sonnet',
      cwd: 'app',
      env: ['ANTHROPIC_API_KEY'],
      budget: { max_tokens: 200_000, max_wall_seconds: 900 },
    }
    const agent = { name: 'ann', settings, instructions: '# You\n\nBe careful.\n---\nReally.' }
    const body = `\n${agent.instructions}\n`
    expect(
      read(`---
worker_target: coders
preset: claude
model: sonnet
cwd: app
env: [ANTHROPIC_API_KEY]
budget:
  max_tokens: 200000
  max_wall_seconds: 900
---${body}`),
    ).toEqual({ agent })
    expect(
      read(`+++
executor = "command"
worker_target = "coders"
preset = "claude"
model = "sonnet"
cwd = "app"
env = ["ANTHROPIC_API_KEY"]
[budget]
max_tokens = 200_000
max_wall_seconds = 900
+++${body}`),
    ).toEqual({ agent })
    expect(read('---\r\ncommand: [cat]\r\n---\r\nHello.\r\n')).toMatchObject({
      agent: { settings: { command: ['cat'], worker_target: 'default' }, instructions: 'Hello.' },
    })
    expect(read('---\nmodule: a.mjs\nisolation: process\nmemory_max_mb: 256\n---\n')).toMatchObject({
      agent: { settings: { executor: 'function', module: 'a.mjs', isolation: 'process', memory_max_mb: 256 } },
    })
  })

  it('reports all problems of an agent file with file, line and nearest key', () => {
    expect(problems('---\ncomand: ls\nbudget:\n  max_tokns: 5\nworker_target: Big One\n---\n')).toEqual([
      expect.stringMatching(
        /^agents\/ann\.md:5: "worker_target" is invalid: must be 1 to 120.*\(got "Big One"\)\. Fix the value or remove the key$/,
      ),
      'agents/ann.md:4: unknown key "budget.max_tokns". Did you mean "budget.max_tokens"?',
      'agents/ann.md:2: unknown key "comand". Did you mean "command"?',
    ])
    expect(problems('---\ncommand: ls\nmax_wall: 5\nfrobnicate: 1\n---\n')).toEqual([
      'agents/ann.md:3: unknown key "max_wall". Did you mean "budget.max_wall_seconds"?',
      'agents/ann.md:4: unknown key "frobnicate". docs/guides/agents.md lists all keys',
    ])
    expect(problems('+++\npreset = "clade"\n+++\n')[0]).toMatch(
      /^agents\/ann\.md:2: "preset" is invalid: .*"claude".*\(got "clade"\)/,
    )
    expect(problems('+++\npreset = \n+++\n')[0]).toMatch(/^agents\/ann\.md:2: invalid TOML/)
  })

  it.each([
    ['Hello.', 'agents/ann.md:1: an agent file must start with a line ---'],
    ['---\ncommand: ls\n', 'agents/ann.md:1: the front matter has no closing ---'],
    ['---\n---\n', 'agents/ann.md:1: the executor is missing'],
    ['---\nexecutor: command\n---\n', 'agents/ann.md:2: executor "command" requires "command" or "preset"'],
    ['---\nexecutor: model\n---\n', 'agents/ann.md:2: executor "model" requires "model"'],
    ['---\nmodel: m\nenv: [A]\n---\n', 'agents/ann.md:3: "env" is only for executor "command"'],
    ['---\ncommand: ls\nmodel: m\n---\n', 'agents/ann.md:3: "model" requires a preset'],
    [
      '---\ncommand: ls\nmust_end_with: submit_result\n---\n',
      'agents/ann.md:3: "must_end_with" is only for executor "model"',
    ],
    [
      '---\ncommand: ls\nenv: [BELLWETHER__DATABASE__URL]\n---\n',
      'agents/ann.md:3: BELLWETHER__DATABASE__URL is a setting',
    ],
    [
      '---\nmodel: m\ntools: [a, "mcp:files/*", Big]\n---\n',
      'agents/ann.md:3: "tools" is invalid: a tool must be a name',
    ],
    ['---\ncommand: ls\ntools: [a]\n---\n', 'agents/ann.md:3: "tools" is only for executor "model"'],
    ['---\ncommand: ls\nbudget: 5\n---\n', 'agents/ann.md:3: "budget" is invalid: must be of type object (got 5)'],
    ['---\ncommand: ls\nbudget:\n  max_tokens: -1\n---\n', 'agents/ann.md:4: "budget.max_tokens" is invalid'],
    ['---\ncommand: ls\nisolation: thread\n---\n', 'agents/ann.md:3: "isolation" is only for executor "function"'],
    ['---\nmodule: a.mjs\nisolation: fiber\n---\n', 'agents/ann.md:3: "isolation" is invalid'],
    [
      '---\nmodule: a.mjs\nisolation: none\n---\n',
      'agents/ann.md:3: "isolation" must be "thread" or "process" with "module"',
    ],
    ['---\nmodule: a.mjs\nmemory_max_mb: 1\n---\n', 'agents/ann.md:3: "memory_max_mb" is invalid'],
    ['---\ncommand: ls\n__proto__: 1\n---\n', 'agents/ann.md:3: unknown key "__proto__"'],
  ])('rejects the agent file %j', (text, message) => {
    expect(problems(text)[0]).toContain(message)
  })

  it('rejects a file name that is not an agent id, and a file that is too large to store', () => {
    expect(problems('---\ncommand: ls\n---\n', 'agents/Ann Lee.md')[0]).toContain(
      "the file name must be the agent's id",
    )
    expect(problems(`---\ncommand: ls\n---\n${'x'.repeat(70_000)}`)[0]).toContain('is larger than')
  })
})
