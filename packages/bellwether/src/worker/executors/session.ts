/**
 * The session of a coding agent's program across runs: which flags start and resume it, and when it counts as lost. The id is stored under
 * the fence before the first run (if the caller may choose it) or when the program prints it; a takeover from a worker that died before that
 * looks for the session where the program keeps it. A lost session is replaced by one new session per attempt.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '@bellwether/base'
import type { StoredSession } from '../../kernel/reads/program-session.js'
import { FenceLost, type TurnContext } from '../agent.js'
import type { CommandRun } from './command-run.js'
import { sessionSearch } from './find-session.js'
import type { ParsedOutput } from './parsed-output.js'
import type { PresetName, Recipe, SessionArguments } from './presets.js'
import { add, since, type Usage } from './usage.js'

interface SessionFlags {
  /** Names a new session. Absent: the program names it and prints the id. */
  readonly start?: (id: string) => SessionArguments
  readonly resume: (id: string) => SessionArguments
  /** Flags with which the owner of the agent chooses a session. */
  readonly chosen: RegExp
  /** What a version of the program prints that does not know the flag of `start`. The program names the session then. */
  readonly unnamed?: RegExp
  /** What the program prints if the session does not exist, or is too long to continue. */
  readonly lost: RegExp
  /** Whether a resumed session keeps its id. Then another id means that the program has started a new session. */
  readonly keepsId: boolean
  /** Its usage counts the complete session, not the run. */
  readonly countsSession?: true
  /** Keeps the input open: the program reads messages while it runs. */
  readonly stream?: readonly string[]
  /** The file of the session in the folder of the run, for a program that starts without one silently. */
  readonly file?: (id: string) => string
}

const aiderFile = (id: string) => `.aider.chat.history.${id}.md`

/** As the programs document them. */
const flagsOf: Readonly<Record<PresetName, SessionFlags>> = {
  claude: {
    start: (id) => ({ args: ['--session-id', id] }),
    resume: (id) => ({ args: ['--resume', id] }),
    stream: ['--input-format', 'stream-json', '--replay-user-messages'],
    chosen: /^(?:--input-format|--resume|-r|--continue|-c|--session-id|--no-session-persistence|--fork-session)(?:=|$)/,
    lost: /No conversation found|requires a valid session ID|Session ID .* is already in use|Prompt is too long/i,
    // Older versions continue under a new id.
    keepsId: false,
  },
  codex: {
    resume: (id) => ({ last: ['resume', id, '-'] }),
    chosen: /^(?:resume|--ephemeral)$/,
    lost: /no rollout found|(?:thread|conversation|session) not found/i,
    keepsId: true,
    countsSession: true,
  },
  gemini: {
    start: (id) => ({ args: ['--session-id', id] }),
    unnamed: /Unknown arguments?: .*session-?id/i,
    resume: (id) => ({ args: ['--resume', id] }),
    chosen: /^(?:--resume|-r|--session-id|--session-file)(?:=|$)/,
    lost: /Error resuming session|Invalid session identifier|No previous sessions found/i,
    keepsId: true,
  },
  aider: {
    start: (id) => ({ args: ['--chat-history-file', aiderFile(id)] }),
    resume: (id) => ({ args: ['--chat-history-file', aiderFile(id), '--restore-chat-history'] }),
    chosen: /^--(?:no-)?(?:chat-history-file|restore-chat-history)(?:=|$)/,
    lost: /^\b$/,
    keepsId: true,
    file: aiderFile,
  },
  opencode: {
    resume: (id) => ({ args: ['--session', id] }),
    chosen: /^(?:--session|-s|--continue|-c|--title|--fork)(?:=|$)/,
    lost: /Session not found/i,
    keepsId: true,
  },
}

/** How a run starts: from nothing, in the middle of its own work, with a new request in an earlier session, or with messages. */
export type RunStart = 'fresh' | 'continue' | 'follow_up' | 'messages'

export interface RunSession {
  readonly start: RunStart
  readonly resumes: boolean
  /** Whether the session may contain the prompt of this run: a worker died before it stored an answer. */
  readonly mayKnowPrompt: boolean
  readonly args: SessionArguments
  /** Undefined until the program has a session. */
  readonly id: string | undefined
  /** Whether the program reads messages while it runs. */
  readonly streams: boolean
  /** The last message that the session contains for certain. */
  readonly messagesSeen: number
  /** A line for the end of the prompt of a new session, by which a later run finds it. */
  readonly promptMark: string | undefined
  /** The next prompt contains messages up to this one. */
  hand(seq: number): void
  /** Stores what the next run starts with. Call it before the program starts. */
  begin(): Promise<void>
  /** Notes what the program has printed. True: the program has not resumed the session, stop it. */
  see(output: ParsedOutput): boolean
  /** What the run has used, of the usage that its program reports. */
  used(reported: Usage | undefined): Usage | undefined
  /** What the session had used before the run, of a program that reports the usage of complete sessions. */
  readonly before: Usage | undefined
  /** Resolves when everything that was seen is stored. */
  stored(): Promise<void>
  /** Whether the run shows that the session is lost; then the next run starts from nothing. At most once. */
  isLost(run: CommandRun): boolean
  /** The next run continues the session of the last one. False: the program has none. */
  goOn(): boolean
}

export interface RunSessionOptions {
  readonly context: TurnContext
  readonly recipe: Recipe
  readonly folder: string
  readonly log: Log
  /** Whether sessions are stored and resumed. */
  readonly resume: boolean
  /** Whether the program may read messages while it runs. */
  readonly steering: boolean
  /** The run must start from nothing, for example because its context is reduced. */
  readonly fresh: boolean
  /** Whether an earlier worker has started the turn. */
  readonly takenOver: boolean
  /** Runs a command where the program runs, and returns what it prints. */
  readonly lookUp: (command: readonly string[]) => Promise<string>
}

/** The program and its flags, if Bellwether may choose its session. */
function programOf({ preset, command, args = [] }: Recipe): { name: PresetName; flags: SessionFlags } | undefined {
  if (preset === undefined || command !== undefined) return undefined
  const flags = flagsOf[preset]
  return args.some((arg) => flags.chosen.test(arg)) ? undefined : { name: preset, flags }
}

export async function openRunSession(options: RunSessionOptions): Promise<RunSession> {
  const { context, folder, log } = options
  const sessions = context.programSession
  const program = options.resume && sessions !== undefined ? programOf(options.recipe) : undefined
  if (program === undefined || sessions === undefined) return noSession
  const { name, flags } = program
  const store = sessions
  const isThere = (id: string) => flags.file === undefined || existsSync(join(folder, flags.file(id)))

  const known = options.fresh ? undefined : await store.read()
  const usable =
    known?.program === name && known.folder === folder && isThere(known.programSessionId) ? known : undefined
  const search = sessionSearch(name, context.turn.agentTurnId)
  const found =
    usable === undefined && search !== undefined && options.takenOver && !options.fresh
      ? search.idIn(await options.lookUp(search.command))
      : undefined
  let start: RunStart = usable === undefined ? 'fresh' : startOf(usable, context.turn.agentTurnId)
  if (found !== undefined && search?.hasPrompt === true) start = 'continue'
  let resumes = usable !== undefined || found !== undefined
  let mayKnowPrompt = start !== 'continue' && (found !== undefined || usable?.agentTurnId === context.turn.agentTurnId)
  let resumed = usable !== undefined && (usable.agentTurnId !== context.turn.agentTurnId || usable.resumed)
  const streams = options.steering && flags.stream !== undefined
  let isNamed = flags.start !== undefined
  let id = usable?.programSessionId ?? found ?? (isNamed ? context.newId() : undefined)
  let answered = start === 'continue'
  let messagesSeen = usable?.messagesSeen ?? 0
  let handed = messagesSeen
  let replaced = false
  let before = flags.countsSession === undefined ? undefined : sumOf(usable?.used ?? [])
  let total = before
  let lastStored = ''
  let writing: Promise<void> = Promise.resolve()

  function write(): Promise<void> {
    if (id === undefined) return writing
    const session = { program: name, programSessionId: id, folder, resumed, answered, messagesSeen }
    const text = JSON.stringify(session)
    if (text === lastStored) return writing
    lastStored = text
    writing = writing.then(async () => {
      try {
        await store.store(session)
      } catch (error) {
        // The beat ends a run whose fence is lost. Without a stored id, the next run starts from nothing.
        if (!(error instanceof FenceLost))
          log.warn({ err: error, agent_turn_id: context.turn.agentTurnId }, 'session of a program not stored')
      }
    })
    return writing
  }

  return {
    get start() {
      return start
    },
    get resumes() {
      return resumes
    },
    get mayKnowPrompt() {
      return mayKnowPrompt
    },
    get id() {
      return id
    },
    get args() {
      const own = resumes ? flags.resume(id!) : id === undefined ? search : flags.start?.(id)
      const args = [...((streams && flags.stream) || []), ...(own?.args ?? [])]
      return own !== undefined && 'last' in own ? { ...own, args } : { args }
    },
    get promptMark() {
      return resumes ? undefined : search?.promptMark
    },
    streams,
    get messagesSeen() {
      return messagesSeen
    },
    hand: (seq) => void (handed = Math.max(handed, seq)),
    // A session that was found is stored now: the program may end without printing its id.
    begin: () => (resumes && found !== id ? Promise.resolve() : write()),
    see({ sessionId, answered: answers = false, read }) {
      if (sessionId !== undefined && sessionId !== id) {
        if (resumes && flags.keepsId) return true
        id = sessionId
      }
      answered ||= answers
      const replayed = (read ?? []).map((uuid) => seqOfMessage(context.turn.agentTurnId, uuid))
      const seen = Math.max(answers ? handed : 0, ...replayed)
      messagesSeen = Math.max(messagesSeen, seen)
      void write()
      return false
    },
    used(reported) {
      if (reported === undefined || flags.countsSession === undefined) return reported
      total = reported
      return since(before, reported)
    },
    get before() {
      return before
    },
    stored: () => writing,
    isLost(run) {
      const { output, exit, stopped, stderr, stdout } = run
      const ended = stopped === undefined && exit.how === 'exited'
      if (ended && !resumes && isNamed && flags.unnamed?.test(stderr) === true) {
        isNamed = false
        id = undefined
        return true
      }
      if (!resumes || replaced || output.answered === true) return false
      const says = ended && flags.lost.test(`${stderr}\n${output.failure ?? ''}\n${stdout.slice(0, 4_096)}`)
      const isSilent = ended && flags.file === undefined && output.sessionId === undefined && output.text === undefined
      if (stopped !== 'session_lost' && !says && !isSilent) return false
      replaced = true
      start = 'fresh'
      resumes = false
      mayKnowPrompt = false
      resumed = false
      answered = false
      messagesSeen = 0
      before = undefined
      id = isNamed ? context.newId() : undefined
      return true
    },
    goOn() {
      if (id === undefined || !isThere(id)) return false
      start = 'messages'
      resumes = true
      before = total
      return true
    },
  }
}

/** The id of a message in the program's input: the same after a takeover, so that a program that has read the message ignores it. */
export function messageUuid(agentTurnId: string, seq: number): string {
  const hash = createHash('sha256').update(agentTurnId).digest('hex')
  const [a, b, c, d] = [hash.slice(0, 8), hash.slice(8, 12), hash.slice(12, 15), hash.slice(15, 18)]
  return `${a}-${b}-4${c}-8${d}-${seq.toString(16).padStart(12, '0')}`
}

/** 0: not a message to the turn. */
function seqOfMessage(agentTurnId: string, uuid: string): number {
  const seq = Number.parseInt(uuid.slice(-12), 16)
  return messageUuid(agentTurnId, seq) === uuid ? seq : 0
}

/** What the session contains decides what the program must be shown. */
function startOf({ agentTurnId, answered, resumed }: StoredSession, turn: string): RunStart {
  if (agentTurnId === turn) return answered ? 'continue' : resumed ? 'follow_up' : 'fresh'
  return answered || resumed ? 'follow_up' : 'fresh'
}

const sumOf = (used: readonly unknown[]) =>
  (used as readonly Usage[]).reduce<Usage | undefined>((sum, one) => add(sum, one), undefined)

const noSession: RunSession = {
  streams: false,
  messagesSeen: 0,
  promptMark: undefined,
  hand: () => undefined,
  start: 'fresh',
  resumes: false,
  mayKnowPrompt: false,
  args: {},
  id: undefined,
  begin: () => Promise.resolve(),
  see: () => false,
  used: (reported) => reported,
  before: undefined,
  stored: () => Promise.resolve(),
  isLost: () => false,
  goOn: () => false,
}
