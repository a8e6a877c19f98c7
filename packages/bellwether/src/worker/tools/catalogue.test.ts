import { expect, it } from 'vitest'
import { openCatalogue } from './catalogue.js'
import type { HostedTool } from './tool.js'

const tool = (name: string, description: string): HostedTool => ({
  name,
  description,
  parameters: {},
  run: async () => null,
})

it('a catalogue follows the current functions and the lists of MCP servers, and a function keeps its name', () => {
  let functions: readonly HostedTool[] = []
  let served: readonly { readonly tool: string; readonly hosted: HostedTool }[] = []
  const declared = [tool('deploy', 'an HTTP tool'), tool('search', 'an HTTP tool')]
  const catalogue = openCatalogue(declared, [{ server: 'files', tools: () => served }], () => functions)
  expect(catalogue.names()).toEqual(['deploy', 'search'])
  functions = [tool('deploy', 'a function')]
  served = [{ tool: 'search', hosted: tool('search', 'an MCP tool') }]
  expect(catalogue.find('deploy')?.description).toBe('a function')
  expect(catalogue.find('search')?.description).toBe('an HTTP tool')
  expect(catalogue.own.map(({ description }) => description)).toEqual(['a function', 'an HTTP tool'])
  functions = []
  served = [{ tool: 'read', hosted: tool('read', 'an MCP tool') }]
  expect(catalogue.own).toEqual(declared)
  expect(catalogue.names()).toEqual(['deploy', 'search', 'read'])
})
