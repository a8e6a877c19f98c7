import { describe, expect, it } from 'vitest'
import type { ToolCall } from '../../kernel/verbs/turn/suspend.js'
import { openCatalogue } from './catalogue.js'
import { defineTool } from './define-tool.js'
import { mcpName } from './names.js'
import type { HostedTool } from './tool.js'
import { isForActions, openToolbox, type ToolboxOptions } from './toolbox.js'

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

describe('isForActions', () => {
  it('gives people the tools of the project, and of an MCP server those that the agent’s file lists', () => {
    const may = (name: string, ...wanted: string[]) => isForActions(name, catalogue, wanted)
    expect(may('search')).toBe(true)
    expect(may('files__write')).toBe(false)
    expect(may('files__write', 'mcp:files/read')).toBe(false)
    expect(may('files__write', 'mcp:files')).toBe(true)
    expect(may('unknown', 'unknown')).toBe(false)
  })
})

describe('openToolbox', () => {
  it('holds exactly the tools that the agent lists, each once', () => {
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
      'no tool matches "serch"',
      'no MCP server has a tool that matches "mcp:nowhere"',
      'no MCP server has a tool that matches "mcp:files/x"',
    ])
  })

  it('offers at most 128 tools and reports how many are left out', () => {
    const box = open(['mcp:many'])
    expect(box.offers).toHaveLength(128)
    expect(box.problems).toEqual(['872 of 1000 tools are not offered: the limit is 128'])
    for (const { parameters: schema } of box.offers) expect(schema['type']).toBe('object')
  })

  it('plans a call from its declaration, and leaves the settings of roster tools to the kernel', () => {
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

  it('refuses unknown tools with the nearest name, invalid arguments, and tools that were not offered', () => {
    const plan = open(['search', 'post']).plan({ toolCallId: 'c', name: 'serach', args: {} })
    expect(plan).toEqual({
      refuse: { code: 'unknown_tool', message: 'unknown tool "serach". Did you mean search? Your tools: search, post' },
    })
    expect(open(['search']).plan({ toolCallId: 'c', name: 'post', args: { q: '' } })).toMatchObject({ refuse: {} })
    expect(open([]).plan({ toolCallId: 'c', name: '__proto__', args: {} })).toMatchObject({
      refuse: { code: 'unknown_tool' },
    })
    expect(refused('search', {})?.message).toBe('the arguments are invalid: "q" is missing')
  })
})

describe('delegate and fork_join', () => {
  it('become batches: delegate reuses the agent, fork_join makes copies', () => {
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
    ['a task without an agent', { tasks: [{ instruction: 'a' }] }, '"agent" is missing'],
    ['an invalid agent name', { tasks: [{ instruction: 'a', agent: 'Big One' }] }, 'is not a valid agent name'],
    [
      'an invalid second task',
      {
        tasks: [
          { instruction: 'a', agent: 'b' },
          { instruction: 'a', agent: '../b' },
        ],
      },
      'task 1: ',
    ],
    [
      'delegation to itself',
      { tasks: [{ instruction: 'a', agent: 'ann', target_strategy: 'reuse' }] },
      'cannot delegate to yourself',
    ],
    [
      'duplicate result fields',
      { tasks: [{ instruction: 'a', agent: 'b', result_fields: [{ name: 'x' }, { name: 'x' }] }] },
      'distinct names',
    ],
    ['an empty task list', { tasks: [] }, 'must NOT have fewer than 1 items'],
    [
      'too many tasks',
      { tasks: Array.from({ length: 1_001 }, () => ({ instruction: 'a', agent: 'b' })) },
      'more than 1000 items',
    ],
    [
      'an unknown parameter',
      { tasks: [{ instruction: 'a', agent: 'b', context_box_id: 'x' }] },
      '"context_box_id" is not a parameter',
    ],
    ['a deadline of 0', { tasks: [{ instruction: 'a', agent: 'b' }], deadline_seconds: 0 }, 'must be > 0'],
  ])('refuse %s', (_what, args, message) => {
    expect(refused('fork_join', args)?.message).toContain(message)
  })

  it('refuse a turn at the maximum recursion depth', () => {
    const deep = { around: { ...around, recursionDepth: 20 } }
    expect(refused('delegate', { agent: 'coder', instruction: 'do' }, deep)).toMatchObject({
      code: 'recursion_depth_exceeded',
    })
  })
})

it('plans ask_person as an idempotent call that people answer', () => {
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
