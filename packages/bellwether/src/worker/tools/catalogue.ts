/**
 * The tools that this process runs itself, by name: functions, HTTP tools, and what its MCP servers list now. Always: one name, one
 * tool; the first to have a name keeps it. MCP servers come and go: what they list is asked for each time.
 */
import type { HostedTool } from './tool.js'

/** Tools of one MCP server, by their own names. */
export interface ServerTools {
  readonly server: string
  /** The same list as long as nothing changed. */
  tools(): readonly { readonly tool: string; readonly hosted: HostedTool }[]
}

export interface Catalogue {
  find(name: string): HostedTool | undefined
  /** Every tool's name. */
  names(): string[]
  /** Functions and HTTP tools. */
  readonly own: readonly HostedTool[]
  readonly servers: readonly ServerTools[]
}

export function openCatalogue(own: readonly HostedTool[], servers: readonly ServerTools[]): Catalogue {
  const declared = new Map(own.map((tool) => [tool.name, tool]))
  let lists: readonly unknown[] = []
  let all = new Map(declared)
  /** Made anew when a server has listed its tools again. */
  function everything(): ReadonlyMap<string, HostedTool> {
    const now = servers.map((server) => server.tools())
    if (now.every((list, at) => list === lists[at])) return all
    all = new Map(declared)
    for (const { hosted } of now.flat()) if (!all.has(hosted.name)) all.set(hosted.name, hosted)
    lists = now
    return all
  }
  return { own, servers, find: (name) => everything().get(name), names: () => [...everything().keys()] }
}
