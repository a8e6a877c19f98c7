/**
 * The tools that this process hosts, by name: functions, HTTP tools and the current tools of its MCP servers. Names are unique: the
 * first tool with a name keeps it. Tools of MCP servers may change at any time, so their lists are read on every lookup.
 */
import type { HostedTool } from './tool.js'

/** The tools of one MCP server, with the server's own names. */
export interface ServerTools {
  readonly server: string
  /** Returns the same array until the list changes. */
  tools(): readonly { readonly tool: string; readonly hosted: HostedTool }[]
}

export interface Catalogue {
  find(name: string): HostedTool | undefined
  names(): string[]
  /** Functions and HTTP tools. */
  readonly own: readonly HostedTool[]
  readonly servers: readonly ServerTools[]
}

export function openCatalogue(own: readonly HostedTool[], servers: readonly ServerTools[]): Catalogue {
  const declared = new Map(own.map((tool) => [tool.name, tool]))
  let lists: readonly unknown[] = []
  let all = new Map(declared)
  /** Rebuilt when a server's list has changed. */
  function allTools(): ReadonlyMap<string, HostedTool> {
    const now = servers.map((server) => server.tools())
    if (now.every((list, at) => list === lists[at])) return all
    all = new Map(declared)
    for (const { hosted } of now.flat()) if (!all.has(hosted.name)) all.set(hosted.name, hosted)
    lists = now
    return all
  }
  return { own, servers, find: (name) => allTools().get(name), names: () => [...allTools().keys()] }
}
