import { describe, expect, it } from 'vitest'
import type { ToolCall } from '../../kernel/verbs/turn/suspend.js'
import { openCatalogue } from './catalogue.js'
import { defineTool } from './define-tool.js'
import { mcpName } from './names.js'
import type { HostedTool } from './tool.js'
import { openToolbox, type ToolboxOptions } from './toolbox.js'

const parameters = { type: 'object', properties: { q: { type: 'string' } }, required: ['q'] }
const tool = (name: string, more: Partial<HostedTool> = {}): HostedTool => ({
  name,
  description: `does ${name}`,
  parameters,
  run: async () => null,
  ...more,
})
const search = defineTool(tool('search', { timeoutSeconds: 20, idempotent: true }))
const post = defineTool(tool('post', { afterExecution: 'terminate' }))
const listed = ['read', 'write', 'List All'].map((name) => ({ tool: name, hosted: tool(mcpName('files', name)) }))
const many = Array.from({ length: 1_000 }, (_, at) => ({ tool: `t${at}`, hosted: tool(mcpName('many', `t${at}`)) }))
const catalogue = openCatalogue(
  [search, post],
  [
    { server: 'files', tools: () => listed },
    { server: 'many', tools: () => many },
  ],
)
const around = {
  agentId: 'ann',
  recursionDepth: 2,
  maxRecursionDepth: 20,
  agents: [{ name: 'coder', description: 'codes' }],
}
const open = (wanted: readonly string[], more: Partial<ToolboxOptions> = {}) =>
  openToolbox({ wanted, catalogue, project: [], around, silentSeconds: 30, ...more })
const names = (wanted: readonly string[], more?: Partial<ToolboxOptions>) =>
  open(wanted, more).offers.map((offer) => offer.name)

function planned(wanted: string, args: unknown, more?: Partial<ToolboxOptions>): ToolCall {
  const plan = open([wanted], more).plan({ toolCallId: 'c', name: wanted, args })
  if ('refuse' in plan) throw new Error(plan.refuse.message)
  return plan.call
}
const refused = (wanted: string, args: unknown, more?: Partial<ToolboxOptions>) => {
  const plan = open([wanted], more).plan({ toolCallId: 'c', name: wanted, args })
  return 'refuse' in plan ? plan.refuse : undefined
}

describe('a toolbox', () => {
  it('holds what the agent lists and nothing else, each once', () => {
    const project = [{ tool_name: 'deploy', description: 'ships it', parameters: {} }]
    expect(names([])).toEqual([])
    expect(names(['search', 'search', 'submit_result', 'delegate', 'deploy'], { project })).toEqual([
      'search',
      'delegate',
      'deploy',
    ])
    expect(names(['mcp:files'])).toEqual([
      'files__read',
      'files__write',
      expect.stringMatching(/^files__list_all-[0-9a-f]{8}$/),
    ])
    expect(names(['mcp:files/w*', 'mcp:files/List All', 'files__read'])).toHaveLength(3)
    expect(names(['s*', '*'], { project })).toEqual(['search', 'post', 'deploy'])
    expect(open(['serch', 'mcp:nowhere', 'mcp:files/x']).problems).toEqual([
      'there is no tool serch',
      'no MCP server has mcp:nowhere',
      'no MCP server has mcp:files/x',
    ])
  })

  it('offers no more than providers take, and says what is left out', () => {
    const box = open(['mcp:many'])
    expect(box.offers).toHaveLength(128)
    expect(box.problems).toEqual(['872 of 1000 tools are not offered: the limit is 128'])
    for (const { parameters: schema } of box.offers) expect(schema['type']).toBe('object')
  })

  it('plans a call with what its declaration says, and leaves to the roster what only it knows', () => {
    expect(planned('search', { q: 'x' })).toEqual({
      toolCallId: 'c',
      toolName: 'search',
      args: { q: 'x' },
      timeoutSeconds: 80,
      idempotent: true,
    })
    expect(planned('post', { q: 'x' })).toMatchObject({
      afterExecution: 'terminate',
      timeoutSeconds: 40,
      idempotent: false,
    })
    const project = [{ tool_name: 'deploy', description: '', parameters: null }]
    expect(planned('deploy', { any: 1 }, { project })).toEqual({
      toolCallId: 'c',
      toolName: 'deploy',
      args: { any: 1 },
    })
  })

  it('refuses in words: an unknown tool with the nearest name, arguments with what is wrong, tools that were not offered', () => {
    const plan = open(['search', 'post']).plan({ toolCallId: 'c', name: 'serach', args: {} })
    expect(plan).toEqual({
      refuse: {
        code: 'unknown_tool',
        message: 'there is no tool "serach"; did you mean search? You have: search, post',
      },
    })
    expect(open(['search']).plan({ toolCallId: 'c', name: 'post', args: { q: '' } })).toMatchObject({ refuse: {} })
    expect(open([]).plan({ toolCallId: 'c', name: '__proto__', args: {} })).toMatchObject({
      refuse: { code: 'unknown_tool' },
    })
    expect(refused('search', {})?.message).toBe('the arguments do not fit: "q" is missing')
  })
})

describe('delegate and fork_join', () => {
  it('are batches: the agent itself for one task, copies for tasks in parallel', () => {
    expect(planned('delegate', { agent: 'coder', instruction: 'do' })).toMatchObject({
      toolName: 'delegate',
      batch: { tasks: [{ targetStrategy: 'reuse', targetRef: 'coder', instruction: 'do' }] },
    })
    const tasks = [
      {
        agent: 'coder',
        instruction: 'a',
        context: 'be quick',
        result_fields: [{ name: 'n', type: 'integer', required: true }],
      },
      { agent: 'made-by-hand', instruction: 'b' },
      { target_strategy: 'reuse', target_ref: 'bob', instruction: 'c' },
    ]
    expect(planned('fork_join', { tasks, fail_fast: true, deadline_seconds: 60 }).batch).toEqual({
      failFast: true,
      deadlineSeconds: 60,
      tasks: [
        {
          targetStrategy: 'new',
          targetRef: 'coder',
          instruction: 'a\n\n# Context\n\nbe quick',
          resultFields: [{ name: 'n', type: 'integer', required: true }],
        },
        { targetStrategy: 'clone', targetRef: 'made-by-hand', instruction: 'b' },
        { targetStrategy: 'reuse', targetRef: 'bob', instruction: 'c' },
      ],
    })
    expect(open(['delegate']).offers[0]?.description).toContain('coder (codes)')
  })

  it.each([
    ['nobody', { tasks: [{ instruction: 'a' }] }, 'does not say which agent'],
    ['a name that is none', { tasks: [{ instruction: 'a', agent: 'Big One' }] }, 'is not the name of an agent'],
    [
      'the second task',
      {
        tasks: [
          { instruction: 'a', agent: 'b' },
          { instruction: 'a', agent: '../b' },
        ],
      },
      'task 1: ',
    ],
    ['oneself', { tasks: [{ instruction: 'a', agent: 'ann', target_strategy: 'reuse' }] }, 'give work to yourself'],
    [
      'fields twice',
      { tasks: [{ instruction: 'a', agent: 'b', result_fields: [{ name: 'x' }, { name: 'x' }] }] },
      'distinct names',
    ],
    ['no tasks', { tasks: [] }, 'must NOT have fewer than 1 items'],
    [
      'too many',
      { tasks: Array.from({ length: 1_001 }, () => ({ instruction: 'a', agent: 'b' })) },
      'more than 1000 items',
    ],
    [
      "another's box",
      { tasks: [{ instruction: 'a', agent: 'b', context_box_id: 'x' }] },
      'there is no "context_box_id"',
    ],
    ['no end', { tasks: [{ instruction: 'a', agent: 'b' }], deadline_seconds: 0 }, 'must be > 0'],
  ])('refuse what cannot be: %s', (_what, args, message) => {
    expect(refused('fork_join', args)?.message).toContain(message)
  })

  it('refuse a turn that is as deep as turns may be', () => {
    const deep = { around: { ...around, recursionDepth: 20 } }
    expect(refused('delegate', { agent: 'coder', instruction: 'do' }, deep)).toMatchObject({
      code: 'recursion_depth_exceeded',
    })
  })
})

it('ask_person waits for people: no host is sent for, and a question that nobody answered may be asked again', () => {
  expect(planned('ask_person', { question: 'which?', choices: ['a', 'b'], to: 'ann', deadline_seconds: 60 })).toEqual({
    toolCallId: 'c',
    toolName: 'ask_person',
    args: { question: 'which?', choices: ['a', 'b'], to: 'ann' },
    hostedBy: 'person',
    timeoutSeconds: 60,
    idempotent: true,
  })
  expect(refused('ask_person', {})?.message).toContain('"question" is missing')
})
