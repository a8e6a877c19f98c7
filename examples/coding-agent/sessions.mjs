/**
 * The sessions of the stand-ins: one file of JSON lines per session, at the place in which each program keeps its own, below the cache
 * folder of this account, or below CODEX_HOME; in Bellwether's sandbox, at that place itself. A line is a prompt, a call of the model with
 * what it used, or the end of the answer. Files older than a day are removed.
 */
import { createHash, randomUUID } from 'node:crypto'
import {
  accessSync,
  appendFileSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

const home = join(homedir(), '.cache', 'bellwether-stand-ins')
const places = {
  claude: join('.claude', 'projects'),
  codex: join('.codex', 'sessions'),
  gemini: join('.gemini', 'tmp'),
  opencode: join('.local', 'share', 'opencode'),
}
/** The sandbox mounts a folder there that belongs to the agent alone. Anywhere else it is the real program's. */
function isOwn(place) {
  const mounts = existsSync('/proc/self/mountinfo') ? readFileSync('/proc/self/mountinfo', 'utf8') : ''
  return mounts.split('\n').some((line) => line.split(' ')[4] === place)
}
export const isSandboxed = (name) => isOwn(join(homedir(), places[name]))
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const keepMs = 86_400_000

/** The folder of the sessions that a program finds in this working directory. */
export function sessionFolder(name, cwd = process.cwd()) {
  const hash = createHash('sha256').update(cwd).digest('hex')
  const folders = {
    claude: cwd.replaceAll(/[^A-Za-z0-9]/g, '-'),
    codex: hash,
    gemini: join(hash, 'chats'),
    opencode: join('storage', hash),
  }
  if (name === 'codex' && process.env.CODEX_HOME !== undefined) {
    const day = new Date().toISOString().slice(0, 10).split('-')
    return join(process.env.CODEX_HOME, 'sessions', ...day)
  }
  if (name === 'aider') return cwd
  const own = join(homedir(), places[name])
  return join(isOwn(own) ? own : join(home, places[name]), folders[name])
}

/** Codex names a file after the time and the id, and writes a line about the session first. */
function codexFile(folder, id) {
  const root = process.env.CODEX_HOME === undefined ? folder : join(process.env.CODEX_HOME, 'sessions')
  const known = existsSync(root) && readdirSync(root, { recursive: true }).find((file) => file.endsWith(`-${id}.jsonl`))
  if (known) return join(root, known)
  return join(folder, `rollout-${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}-${id}.jsonl`)
}
const codexMeta = (id) => ({
  timestamp: new Date().toISOString(),
  type: 'session_meta',
  payload: { id, timestamp: new Date().toISOString(), cwd: process.cwd(), originator: 'codex_exec', source: 'exec' },
})

/** What `opencode session list --format json` prints. */
export function listSessions(name) {
  const folder = sessionFolder(name)
  const files = existsSync(folder) ? readdirSync(folder).filter((file) => file.endsWith('.jsonl')) : []
  return files.map((file) => {
    const title = linesIn(join(folder, file)).find((line) => line.title !== undefined)?.title ?? ''
    return { id: file.replace('.jsonl', ''), title, directory: process.cwd() }
  })
}

const programs = {
  claude: {
    resume: ['--resume', '-r'],
    named: '--session-id',
    fails: (id) => ({ fails: `No conversation found with session ID: ${id}`, exit: 1, printed: true, wanted: id }),
    taken: (id) => ({ fails: `Error: Session ID ${id} is already in use.`, exit: 1 }),
    newId: randomUUID,
  },
  codex: {
    resume: ['resume'],
    fails: (id) => ({
      fails: `Error: thread/resume: thread/resume failed: no rollout found for thread id ${id} (code -32600)`,
      exit: 1,
    }),
    newId: randomUUID,
  },
  gemini: {
    resume: ['--resume', '-r'],
    named: '--session-id',
    taken: (id) => ({
      fails: `Error starting session: Session ID "${id}" already exists. Use --resume to resume it, or provide a different ID.`,
      exit: 42,
    }),
    fails: (id) => ({
      fails: `Error resuming session: Invalid session identifier "${id}".\n  Use --list-sessions to see available sessions.`,
      exit: 42,
    }),
    newId: randomUUID,
  },
  opencode: {
    resume: ['--session', '-s'],
    fails: () => ({ fails: 'Error: Session not found', exit: 1 }),
    newId: () => `ses_${randomUUID().replaceAll('-', '').slice(0, 26)}`,
  },
}

const both = (name) =>
  name === 'claude'
    ? 'Error: --session-id can only be used with --continue or --resume if --fork-session is also specified.'
    : 'Error: --session-id cannot be used with --resume.'

export function openSession(name, flags) {
  const value = (...wanted) => flags.find((_, at) => wanted.includes(flags[at - 1]))
  if (name === 'aider') {
    const path = value('--chat-history-file') ?? '.aider.chat.history.md'
    // Without the flag it appends to the file and starts from nothing.
    return sessionIn(path, path, flags.includes('--restore-chat-history') ? linesIn(path) : [])
  }
  const { resume, named, fails, taken, newId } = programs[name]
  const folder = sessionFolder(name)
  // Below CODEX_HOME, sessions may be those of the real program.
  if (folder.startsWith(home) && canWrite(folder)) for (const place of [folder, dirname(folder)]) removeOld(place)
  const pathOf = (id) => (name === 'codex' ? codexFile(folder, id) : join(folder, `${id}.jsonl`))
  const resumed = value(...resume)
  const own = named === undefined ? undefined : value(named)
  if (resumed !== undefined && own !== undefined) return { fails: both(name), exit: 1 }
  if (resumed !== undefined)
    return existsSync(pathOf(resumed)) ? sessionIn(resumed, pathOf(resumed), linesIn(pathOf(resumed))) : fails(resumed)
  if (own !== undefined && !uuid.test(own))
    return { fails: 'Error: Invalid session ID. Must be a valid UUID.', exit: 1 }
  if (own !== undefined && existsSync(pathOf(own))) return taken(own)
  const id = own ?? newId()
  const session = sessionIn(id, pathOf(id), [])
  if (name === 'codex') session.note(codexMeta(id))
  if (name === 'opencode') session.note({ type: 'session', title: value('--title') ?? 'New session' })
  return session
}

const linesIn = (path) =>
  existsSync(path)
    ? readFileSync(path, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line))
    : []

function sessionIn(id, path, lines) {
  const isKept = canWrite(dirname(path))
  const write = (line) => {
    if (isKept) appendFileSync(path, `${JSON.stringify(line)}\n`)
    lines.push(line)
  }
  const since = () => lines.slice(lines.findLastIndex(({ type }) => type === 'end') + 1)
  return {
    id,
    /** The prompts that were answered. */
    earlier: lines.slice(0, lines.findLastIndex(({ type }) => type === 'end') + 1).flatMap(({ text }) => text ?? []),
    /** The prompts since the last answer. */
    get open() {
      return since().filter(({ type }) => type === 'prompt')
    },
    /** The calls since the last answer. */
    get calls() {
      return new Set(since().flatMap(({ call }) => call ?? []))
    },
    /** The usage of all its calls. */
    get spent() {
      return lines.flatMap(({ usage }) => usage ?? [])
    },
    /** False if the session has the prompt. */
    prompt({ uuid: own, text }) {
      if (lines.some((line) => line.uuid === own)) return false
      write({ type: 'prompt', uuid: own, text })
      return true
    },
    note: write,
    call: (at, usage) => write({ type: 'call', call: at, usage }),
    end: () => write({ type: 'end' }),
  }
}

/** Where the home folder cannot be written, a session ends with its process. */
function canWrite(folder) {
  try {
    mkdirSync(folder, { recursive: true })
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function removeOld(folder) {
  for (const file of readdirSync(folder)) {
    const path = join(folder, file)
    if (Date.now() - statSync(path).mtimeMs > keepMs) rmSync(path, { force: true, recursive: true })
  }
}
