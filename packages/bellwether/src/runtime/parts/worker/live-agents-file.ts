/**
 * The function agents of an `up`. The file is loaded again when `up` has accepted a change; turns that run keep the functions that
 * they started with. While a file cannot be loaded, the last version stays in use. A change that is not accepted is never loaded.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { execFile } from 'node:child_process'
import { basename, dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { errorMessage, hasCode, onAbort, type Clock, type Log, makeWake } from '@bellwether/base'
import { watchFolder } from '../../../ports/disk/watch-folder.js'
import { loop } from '../../../ports/loop.js'
import { exchangeTimeoutMs } from '../../../ports/retry.js'
import { functionRefusal, isAgentFile, readAgentFile } from '../../../worker/roster/agent-file.js'
import { agentsFolder } from '../../paths.js'
import { loadAgents, type AgentsFile } from './agents-file.js'

export interface LiveAgentsFileOptions {
  /** The file in the project. */
  readonly file: string
  /** The project folder. */
  readonly folder: string
  /** The folder of the accepted control files. */
  readonly control: string
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

export interface LiveAgentsFile {
  readonly current: AgentsFile | undefined
  /** Why the function cannot run now; undefined if it can. */
  problemOf(name: string): string | undefined
  /** Whether the file in the project is the one that is in use: threads and processes load it from there. */
  isCurrent(): boolean
}

// For network filesystems, which do not report changes.
const pollMs = 5_000

export async function openLiveAgentsFile(options: LiveAgentsFileOptions): Promise<LiveAgentsFile> {
  const { file, folder, control, clock, log, signal } = options
  const name = relative(folder, file)
  const copy = join(control, name)
  let current: AgentsFile | undefined
  let loaded: string | undefined
  let failed: { readonly text: string; readonly problem: string } | undefined

  /** The accepted agents whose code must be in the agents file. */
  function functionAgents(): string[] {
    const place = join(control, agentsFolder)
    const files = existsSync(place) ? readdirSync(place).filter(isAgentFile) : []
    return files.flatMap((one) => {
      const read = readAgentFile(join(agentsFolder, one), textOf(join(place, one)) ?? '')
      // The roster reports invalid files.
      return 'agent' in read && functionRefusal(read.agent) !== undefined ? [read.agent.name] : []
    })
  }

  async function step(): Promise<void> {
    const text = textOf(copy)
    if (text === undefined || text === loaded || text === failed?.text) return
    // Not accepted yet, or changed again: the accepted text is not on the disk any more.
    if (textOf(file) !== text) return
    try {
      const version = createHash('sha256').update(text).digest('hex').slice(0, 16)
      current = await loadAgents(file, version)
      loaded = text
      failed = undefined
      const functions = Object.keys(current.agents)
      log.info({ file: name, agents: functions }, 'agents file loaded')
      const withoutFile = functions.filter(
        (one) => one !== '*' && !existsSync(join(control, agentsFolder, `${one}.md`)),
      )
      if (withoutFile.length > 0)
        log.warn(
          { functions: withoutFile },
          'functions without an agent file: create agents/NAME.md with "executor: function"',
        )
      const withoutFunction = functionAgents().filter((one) => !functions.includes(one) && !functions.includes('*'))
      if (withoutFunction.length > 0)
        log.error({ part: withoutFunction.join(', '), file: name }, 'agents whose function is not in the agents file')
    } catch (error) {
      const problem = await located(name, file, error)
      failed = { text, problem }
      log.error({ file: name, problem, last_valid_version_in_use: current !== undefined }, 'agents file invalid')
    }
  }

  await step()
  const wake = makeWake(clock)
  const watching = watchFolder(
    dirname(copy),
    () => wake.now(),
    (error) => log.warn({ err: error, file: name }, 'cannot watch the agents file; polling it instead'),
  )
  onAbort(signal, () => watching.close())
  void loop({ name: 'agents file', intervalMs: pollMs, clock, log, signal }, step, wake)
  return {
    get current() {
      return current
    },
    problemOf(agent) {
      if (current !== undefined && Object.hasOwn(current.agents, agent)) return undefined
      if (failed !== undefined) return failed.problem
      if (current === undefined)
        return `${name} changed during a turn and is not accepted. Look at it: bellwether trust`
      return `${name} has no function "${agent}". It has ${Object.keys(current.agents).join(', ')}. Add one with this name`
    },
    isCurrent: () => loaded !== undefined && textOf(file) === loaded,
  }
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

/** The message with the line of the file, if it is known. */
async function located(name: string, file: string, error: unknown): Promise<string> {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const message = errorMessage(error)
  const stack = cause instanceof Error ? (cause.stack ?? '') : ''
  const line = lineIn(stack, file) ?? (cause instanceof SyntaxError ? await syntaxLine(file) : undefined)
  return `${name}${line === undefined ? '' : `:${line}`}: ${message}`
}

function lineIn(text: string, file: string): string | undefined {
  const escaped = basename(file).replaceAll(/[^\w]/g, String.raw`\$&`)
  return new RegExp(`${escaped}(?:\\?v=\\w+)?:(\\d+)`).exec(text)?.[1]
}

/** A syntax error of a module has no line; `node --check` prints it and runs nothing. */
async function syntaxLine(file: string): Promise<string | undefined> {
  try {
    await promisify(execFile)(process.execPath, ['--check', file], { timeout: exchangeTimeoutMs })
    return undefined
  } catch (error) {
    const { stderr } = error as { readonly stderr?: unknown }
    return typeof stderr === 'string' ? lineIn(stderr, file) : undefined
  }
}
