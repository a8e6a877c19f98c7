import { describe, expect, it } from 'vitest'
import { readAgentFile } from './agent-file.js'

const read = (text: string, file = 'agents/ann.md') => readAgentFile(file, text)
const problems = (text: string, file?: string) => {
  const result = read(text, file)
  return 'problems' in result ? result.problems : []
}

describe('an agent file', () => {
  it('is front matter and instructions, in YAML or in TOML', () => {
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
  })

  it('that is bad is told by file, line and the nearest key, all mistakes at once', () => {
    expect(problems('---\ncomand: ls\nbudget:\n  max_tokns: 5\nworker_target: Big One\n---\n')).toEqual([
      expect.stringMatching(/^agents\/ann\.md:5: worker_target cannot be used: must be 1 to 120/),
      'agents/ann.md:4: there is no key budget.max_tokns; did you mean budget.max_tokens?',
      'agents/ann.md:2: there is no key comand; did you mean command?',
    ])
    expect(problems('+++\npreset = "clade"\n+++\n')[0]).toMatch(/^agents\/ann\.md:2: preset cannot be used: .*"claude"/)
    expect(problems('+++\npreset = \n+++\n')[0]).toMatch(/^agents\/ann\.md:2: this is not TOML/)
  })

  it.each([
    ['Hello.', 'agents/ann.md:1: an agent file begins with a line ---'],
    ['---\ncommand: ls\n', 'agents/ann.md:1: the front matter has no closing ---'],
    ['---\n---\n', 'agents/ann.md:1: the file says neither executor, nor command, preset or model'],
    ['---\nexecutor: command\n---\n', 'agents/ann.md:2: executor command needs command, or preset'],
    ['---\nexecutor: model\n---\n', 'agents/ann.md:2: executor model needs model'],
    ['---\nmodel: m\nenv: [A]\n---\n', 'agents/ann.md:3: env is for executor command'],
    ['---\ncommand: ls\nmodel: m\n---\n', 'agents/ann.md:3: model is for a preset'],
    ['---\ncommand: ls\nmust_end_with: submit_result\n---\n', 'agents/ann.md:3: must_end_with is for executor model'],
    [
      '---\ncommand: ls\nenv: [BELLWETHER__DATABASE__URL]\n---\n',
      'agents/ann.md:3: BELLWETHER__DATABASE__URL is a setting',
    ],
    ['---\nmodel: m\ntools: [a, "mcp:files/*", Big]\n---\n', 'agents/ann.md:3: tools cannot be used: a tool is a name'],
    ['---\ncommand: ls\ntools: [a]\n---\n', 'agents/ann.md:3: tools is for executor model'],
    ['---\ncommand: ls\nbudget: 5\n---\n', 'agents/ann.md:3: budget cannot be used'],
    ['---\ncommand: ls\nbudget:\n  max_tokens: -1\n---\n', 'agents/ann.md:4: budget.max_tokens cannot be used'],
    ['---\ncommand: ls\n__proto__: 1\n---\n', 'agents/ann.md:3: there is no key __proto__'],
  ])('is refused: %j', (text, message) => {
    expect(problems(text)[0]).toContain(message)
  })

  it('names its agent by its own name, and is small enough to be kept', () => {
    expect(problems('---\ncommand: ls\n---\n', 'agents/Ann Lee.md')[0]).toContain("the file's name is the agent's")
    expect(problems(`---\ncommand: ls\n---\n${'x'.repeat(70_000)}`)[0]).toContain('is larger than')
  })
})
