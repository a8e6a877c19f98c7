/**
 * The tools of one agent for one turn: those that its file lists, from the built-in tools, this worker's tools, its MCP servers and
 * the project's roster. A model can call only the offered tools; arguments are checked before a call is sent; an unknown tool is
 * refused with the nearest name. Pure: hosts run the calls.
 */
import { defined, type JsonObject, objectOf } from '@bellwether/base'
import type { ToolOffer } from '../../ports/model/model.js'
import { nearest } from '../../settings/nearest.js'
import type { Hydrated } from '../hydrate.js'
import { submitResultName } from '../submit-result.js'
import { checkArguments } from './arguments.js'
import { builtIns, type Surroundings } from './built-ins.js'
import type { Catalogue } from './catalogue.js'
import { matchesName } from './names.js'
import { waitSeconds } from './timing.js'
import type { HostedTool, Toolbox, ToolPlan, ToolRequest } from './tool.js'

export interface ToolboxOptions {
  /** The list of the agent file: names, `mcp:SERVER`, `mcp:SERVER/TOOL`; `*` matches any characters. */
  readonly wanted: readonly string[]
  readonly catalogue: Catalogue
  /** Tools of the project's roster, run by hosts of their own. */
  readonly project: Hydrated['tools']
  readonly around: Surroundings
  /** A host without a beat for this long counts as dead. */
  readonly silentSeconds: number
}

export interface AgentToolbox extends Toolbox {
  /** Listed tools that are not available. */
  readonly problems: readonly string[]
}

interface Entry {
  readonly offer: ToolOffer
  plan(request: ToolRequest): ToolPlan
}

// Every provider accepts this many tools per request.
const offersMax = 128
const namesShownMax = 30

export function openToolbox(options: ToolboxOptions): AgentToolbox {
  const { wanted, catalogue, project, around, silentSeconds } = options
  const entries = new Map<string, Entry>()
  const problems: string[] = []
  const own = new Map(builtIns(around).map((one) => [one.offer.name, one]))

  const add = (name: string, entry: () => Entry) => {
    if (!entries.has(name)) entries.set(name, entry())
  }
  const addHosted = (tool: HostedTool) => add(tool.name, () => hostedEntry(tool, silentSeconds))

  for (const item of wanted) {
    const before = entries.size
    const [, server, tool] = /^mcp:([^/]+)(?:\/(.+))?$/.exec(item) ?? []
    if (server !== undefined) {
      for (const one of catalogue.servers.filter((other) => matchesName(server, other.server)))
        for (const listed of one.tools()) if (matchesName(tool ?? '*', listed.tool)) addHosted(listed.hosted)
      if (entries.size === before) problems.push(`no MCP server has a tool that matches "${item}"`)
      continue
    }
    const builtIn = own.get(item)
    const hosted = catalogue.find(item)
    if (item === submitResultName) continue // the executor offers it when needed
    if (builtIn !== undefined) {
      add(item, () => ({
        offer: builtIn.offer,
        plan: ({ toolCallId, args }) => {
          const checked = checkArguments(args, builtIn.offer)
          return 'refuse' in checked ? checked : builtIn.plan(toolCallId, checked.args)
        },
      }))
    } else if (hosted !== undefined) addHosted(hosted)
    else {
      for (const one of catalogue.own) if (matchesName(item, one.name)) addHosted(one)
      for (const one of project) if (matchesName(item, one.tool_name)) add(one.tool_name, () => projectEntry(one))
      if (entries.size === before && !entries.has(item)) problems.push(`no tool matches "${item}"`)
    }
  }
  const offers = [...entries.values()].slice(0, offersMax).map((entry) => entry.offer)
  if (entries.size > offersMax)
    problems.push(`${entries.size - offersMax} of ${entries.size} tools are not offered: the limit is ${offersMax}`)

  return {
    offers,
    problems,
    plan(request) {
      const entry = entries.get(request.name)
      return entry === undefined ? unknown(request.name, offers) : entry.plan(request)
    },
  }
}

/**
 * Whether a person may call the tool as an agent whose file lists `wanted`. Tools that a file declares for the project are for all agents; of
 * the tools of an MCP server, an agent has those that its file lists, however the roster declares them.
 */
export function isForActions(name: string, catalogue: Catalogue, wanted: readonly string[]): boolean {
  if (catalogue.own.some((tool) => tool.name === name)) return true
  const around = { agentId: '', recursionDepth: 0, maxRecursionDepth: 0, agents: [] }
  const { offers } = openToolbox({ wanted, catalogue, project: [], around, silentSeconds: 0 })
  return offers.some((offer) => offer.name === name)
}

function unknown(name: string, offers: readonly ToolOffer[]): ToolPlan {
  const names = offers.map((offer) => offer.name)
  const meant = nearest(name, names)
  const shown = names.slice(0, namesShownMax).join(', ')
  const hint =
    meant === undefined
      ? 'You have no tools'
      : `Did you mean ${meant}? Your tools: ${shown}${names.length > namesShownMax ? ', …' : ''}`
  return { refuse: { code: 'unknown_tool', message: `unknown tool ${JSON.stringify(name.slice(0, 80))}. ${hint}` } }
}

function hostedEntry(tool: HostedTool, silentSeconds: number): Entry {
  const { name, description, parameters, afterExecution, idempotent = false } = tool
  return {
    offer: { name, description, parameters: objectSchema(parameters) },
    plan({ toolCallId, args }) {
      const checked = checkArguments(args, tool)
      if ('refuse' in checked) return checked
      return {
        call: {
          toolCallId,
          toolName: name,
          args: checked.args,
          timeoutSeconds: waitSeconds(tool, silentSeconds),
          idempotent,
          ...defined({ afterExecution }),
        },
      }
    },
  }
}

/** The kernel takes after_execution, the timeout and idempotency of these calls from the roster. */
function projectEntry({ tool_name: name, description, parameters }: Hydrated['tools'][number]): Entry {
  const schema = objectSchema(parameters)
  return {
    offer: { name, description, parameters: schema },
    plan({ toolCallId, args }) {
      const checked = checkArguments(args, { parameters: schema, foreign: true })
      return 'refuse' in checked ? checked : { call: { toolCallId, toolName: name, args: checked.args } }
    },
  }
}

/** Providers reject parameters that are not an object schema. */
function objectSchema(parameters: unknown): JsonObject {
  return { properties: {}, ...objectOf(parameters), type: 'object' }
}
