/**
 * The tools that this process hosts, by name: functions, HTTP tools and the current tools of its MCP servers. Names are unique: the
 * first tool with a name keeps it. Functions and the tools of MCP servers may change at any time, so their lists are read on every lookup.
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

/** `functions` returns the same array until the list changes. */
export function openCatalogue(
  declared: readonly HostedTool[],
  servers: readonly ServerTools[],
  functions: () => readonly HostedTool[] = () => none,
): Catalogue {
  let lists: readonly unknown[] = []
  let own: readonly HostedTool[] = declared
  let all = new Map<string, HostedTool>()
  /** Rebuilt when a list has changed. */
  function allTools(): ReadonlyMap<string, HostedTool> {
    const written = functions()
    const served = servers.map((server) => server.tools())
    const now = [written, ...served]
    if (now.every((list, at) => list === lists[at])) return all
    const named = new Set(written.map(({ name }) => name))
    own = [...written, ...declared.filter(({ name }) => !named.has(name))]
    all = new Map(own.map((tool) => [tool.name, tool]))
    for (const { hosted } of served.flat()) if (!all.has(hosted.name)) all.set(hosted.name, hosted)
    lists = now
    return all
  }
  return {
    get own() {
      allTools()
      return own
    },
    servers,
    find: (name) => allTools().get(name),
    names: () => [...allTools().keys()],
  }
}

const none: readonly HostedTool[] = []
