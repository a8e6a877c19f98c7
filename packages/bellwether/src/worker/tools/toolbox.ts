/**
 * The tools of one agent for one turn: what its file lists, found among the built-in ones, this worker's own, those of its MCP
 * servers and the project's. Always: a model can call only what it was offered; arguments are checked before anybody acts; what
 * cannot be called is told in words, with the nearest name. Pure: who runs a call is the hosts' business.
 */
import { nearest } from '../../settings/nearest.js'
import type { Hydrated } from '../hydrate.js'
import { submitResultName } from '../submit-result.js'
import { checkArguments } from './arguments.js'
import { builtIns, type Surroundings } from './built-ins.js'
import type { Catalogue } from './catalogue.js'
import { matchesName } from './names.js'
import { waitSeconds } from './timing.js'
import type { HostedTool, Toolbox, ToolOffer, ToolPlan, ToolRequest } from './tool.js'

export interface ToolboxOptions {
  /** As the agent's file lists them: names, `mcp:SERVER`, `mcp:SERVER/TOOL`; `*` stands for any characters. */
  readonly wanted: readonly string[]
  readonly catalogue: Catalogue
  /** Of the roster: run by hosts that we know nothing of. */
  readonly project: Hydrated['tools']
  readonly around: Surroundings
  /** After this long without a beat a host is taken for dead. */
  readonly silentSeconds: number
}

export interface AgentToolbox extends Toolbox {
  /** What is listed and cannot be had. */
  readonly problems: readonly string[]
}

interface Entry {
  readonly offer: ToolOffer
  plan(request: ToolRequest): ToolPlan
}

// The most that every provider takes in one call.
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
      if (entries.size === before) problems.push(`no MCP server has ${item}`)
      continue
    }
    const builtIn = own.get(item)
    const hosted = catalogue.find(item)
    if (item === submitResultName) continue // offered by the executor, where it makes sense
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
      if (entries.size === before && !entries.has(item)) problems.push(`there is no tool ${item}`)
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

function unknown(name: string, offers: readonly ToolOffer[]): ToolPlan {
  const names = offers.map((offer) => offer.name)
  const meant = nearest(name, names)
  const shown = names.slice(0, namesShownMax).join(', ')
  const hint =
    meant === undefined
      ? 'you have no tools'
      : `did you mean ${meant}? You have: ${shown}${names.length > namesShownMax ? ', …' : ''}`
  return { refuse: { code: 'unknown_tool', message: `there is no tool ${JSON.stringify(name.slice(0, 80))}; ${hint}` } }
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
          ...(afterExecution === undefined ? {} : { afterExecution }),
        },
      }
    },
  }
}

/** The roster speaks for it where the call is silent: after_execution, timeouts, whether it may be repeated. */
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

/** Providers refuse parameters that are no object. */
function objectSchema(parameters: unknown): Readonly<Record<string, unknown>> {
  if (typeof parameters !== 'object' || parameters === null || Array.isArray(parameters))
    return { type: 'object', properties: {} }
  return { properties: {}, ...parameters, type: 'object' }
}
