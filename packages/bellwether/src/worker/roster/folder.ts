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
  /** Why an agent cannot run here, whatever its file says. */
  readonly refuse?: (agent: AgentFile) => string | undefined
}

export function openAgentFolder({ folder, log, refuse }: AgentFolderOptions): AgentFolder {
  const agents = new Map<string, LoadedAgent>()
  const problems = new Map<string, readonly string[]>()
  const seen = new Map<string, string>()
  const missing = new Set<string>()

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
    },
  }
}
