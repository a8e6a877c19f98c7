/**
 * The agents of a folder. A file is read again when it changes; while a file is invalid, its last valid version stays in use; a file
 * counts as removed only if two scans in a row do not find it. Reads files, writes nothing.
 */
import { createHash } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Log } from '@bellwether/base'
import { readRegularFile } from '../../settings/regular-file.js'
import { fileMaxBytes, isAgentFile, readAgentFile, type AgentFile } from './agent-file.js'

export interface LoadedAgent extends AgentFile {
  /** The hash of the file's text. */
  readonly hash: string
}

/** An agent with the settings of another one and its own instructions or model. */
export interface DerivedAgent {
  readonly name: string
  readonly from: string
  readonly instructions?: string | undefined
  readonly model?: string | undefined
}

export interface AgentFolder {
  /** Reads the changed files. Throws if the folder cannot be read; then no agent is removed. */
  scan(): Promise<void>
  readonly agents: ReadonlyMap<string, LoadedAgent>
  /** The problems of invalid files, by agent name. */
  readonly problems: ReadonlyMap<string, readonly string[]>
}

// More files mean that the setting points to the wrong folder.
const filesMax = 1_000

export interface AgentFolderOptions {
  readonly folder: string
  readonly log: Log
  /** Agents that are made from agents of the folder: read at each scan. */
  readonly derived?: () => Promise<readonly DerivedAgent[]>
  /** Why an agent cannot run here, whatever its file says. */
  readonly refuse?: (agent: AgentFile) => string | undefined
}

export function openAgentFolder({ folder, log, refuse, derived }: AgentFolderOptions): AgentFolder {
  const agents = new Map<string, LoadedAgent>()
  const problems = new Map<string, readonly string[]>()
  const seen = new Map<string, string>()
  const missing = new Set<string>()
  let made = new Set<string>()

  async function read(file: string): Promise<void> {
    const path = join(folder, file)
    const { mtimeMs, size, ino } = await stat(path)
    const mark = `${mtimeMs} ${size} ${ino}`
    const name = basename(file, '.md')
    if (seen.get(name) === mark) return
    const text = size > fileMaxBytes ? ' '.repeat(fileMaxBytes + 1) : readRegularFile(path)
    const parsed = readAgentFile(join(basename(folder), file), text)
    const refusal = 'agent' in parsed ? refuse?.(parsed.agent) : undefined
    const result = refusal === undefined ? parsed : { problems: [refusal] }
    if ('agent' in result) {
      const before = agents.get(name)
      const hash = createHash('sha256').update(text).digest('hex').slice(0, 16)
      agents.set(name, { ...result.agent, hash })
      if (problems.delete(name) || (before !== undefined && before.hash !== hash))
        log.info({ agent_id: name }, 'agent file reloaded')
    } else {
      problems.set(name, result.problems)
      const fields = { agent_id: name, problems: result.problems, last_valid_version_in_use: agents.has(name) }
      log.error(fields, 'agent file invalid')
    }
    seen.set(name, mark)
  }

  /** A file with the name of a derived agent wins. */
  async function derive(): Promise<void> {
    const wanted = new Map(((await derived?.()) ?? []).map((one) => [one.name, one]))
    for (const name of made) if (!wanted.has(name) && !seen.has(name)) agents.delete(name)
    made = new Set(wanted.keys())
    for (const { name, from, instructions, model } of wanted.values()) {
      const base = agents.get(from)
      if (seen.has(name)) continue
      if (base === undefined) {
        agents.delete(name)
        continue
      }
      const own = JSON.stringify([base.hash, instructions, model])
      const hash = createHash('sha256').update(own).digest('hex').slice(0, 16)
      const settings = model === undefined ? base.settings : { ...base.settings, model }
      agents.set(name, { ...base, name, hash, settings, instructions: instructions ?? base.instructions })
    }
  }

  return {
    agents,
    problems,
    async scan() {
      const files = (await readdir(folder)).filter(isAgentFile)
      if (files.length > filesMax)
        throw new Error(
          `Cannot read agents from ${folder}: it has ${files.length} agent files, the limit is ${filesMax}`,
        )
      for (const file of files.sort()) {
        try {
          await read(file)
        } catch (error) {
          // The file was removed after it was listed, or it is unreadable: the next scan tries again.
          log.warn({ err: error, file }, 'agent file not readable')
        }
      }
      const present = new Set(files.map((file) => basename(file, '.md')))
      for (const name of seen.keys()) {
        if (present.has(name)) missing.delete(name)
        else if (!missing.has(name)) missing.add(name)
        else {
          for (const map of [agents, problems, seen]) map.delete(name)
          missing.delete(name)
        }
      }
      await derive()
    },
  }
}
