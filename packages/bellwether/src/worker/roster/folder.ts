/**
 * The agents of a folder as they stand now: each file read when it changed, the last good version kept while a file is bad, a
 * file that is gone believed only when it is still gone at the next look. Reads files, writes nothing.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Log } from '@bellwether/base'
import { fileMaxBytes, readAgentFile, type AgentFile } from './agent-file.js'

export interface LoadedAgent extends AgentFile {
  /** Of the file's text: two versions with the same one are the same. */
  readonly hash: string
}

export interface AgentFolder {
  /** Reads what changed; throws when the folder itself cannot be read, and then nothing is forgotten. */
  look(): Promise<void>
  readonly agents: ReadonlyMap<string, LoadedAgent>
  /** What is wrong with a file now, by the agent's name. */
  readonly problems: ReadonlyMap<string, readonly string[]>
}

// More is a mistake: someone pointed at the wrong folder.
const filesMax = 1_000

export function openAgentFolder({ folder, log }: { readonly folder: string; readonly log: Log }): AgentFolder {
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
    const text = size > fileMaxBytes ? ' '.repeat(fileMaxBytes + 1) : await readFile(path, 'utf8')
    const result = readAgentFile(join(basename(folder), file), text)
    if ('agent' in result) {
      const before = agents.get(name)
      const hash = createHash('sha256').update(text).digest('hex').slice(0, 16)
      agents.set(name, { ...result.agent, hash })
      if (problems.delete(name) || (before !== undefined && before.hash !== hash))
        log.info({ agent_id: name }, 'the agent file was read again')
    } else {
      problems.set(name, result.problems)
      const kept = agents.has(name)
      const message = `an agent file is bad: ${result.problems.join('; ')}`
      log.error({ agent_id: name, problems: result.problems, last_good_version_kept: kept }, message)
    }
    seen.set(name, mark)
  }

  return {
    agents,
    problems,
    async look() {
      const files = (await readdir(folder)).filter(
        (file) => file.endsWith('.md') && file !== 'README.md' && !file.startsWith('.'),
      )
      if (files.length > filesMax)
        throw new Error(`${folder} has ${files.length} agent files; the limit is ${filesMax}`)
      for (const file of files.sort()) {
        try {
          await read(file)
        } catch (error) {
          // Gone between the list and the look, or not readable: the next look tells.
          log.warn({ err: error, file }, 'an agent file cannot be read')
        }
      }
      const present = new Set(files.map((file) => basename(file, '.md')))
      for (const name of seen.keys()) {
        if (present.has(name)) missing.delete(name)
        else if (!missing.has(name)) missing.add(name)
        else {
          for (const book of [agents, problems, seen]) book.delete(name)
          missing.delete(name)
        }
      }
    },
  }
}
