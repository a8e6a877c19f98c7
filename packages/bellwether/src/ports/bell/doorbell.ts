/**
 * Shares one LISTEN connection between the processes of one user on one machine, because PostgreSQL wakes every listening backend for
 * every notify. The first process listens and serves a Unix socket; the others join it, name the subjects they wait for, and get only
 * those messages. A member's connection ends with the LISTEN connection, when messages were skipped, or when the socket is silent; then
 * the member joins again or listens itself, and reads the database. Two hosts at once are possible after a crash and only cost a connection.
 */
import { createHash } from 'node:crypto'
import { chmod, link, lstat, mkdir, readdir, unlink, utimes } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { type Clock, deferred, hasCode, type Log, objectOf, parseJson } from '@bellwether/base'
import { matches } from '@bellwether/protocol'
import { PeerEnded, type Connection } from '../connections/connection-keeper.js'

/** A connection that receives messages. */
export interface ListenConnection extends Connection {
  /** Ends the connection at once, because it may be half open. */
  destroy(reason: Error): void
  /** Absent if every message arrives: then this process has the LISTEN connection and must probe it. */
  readonly subscribe?: (pattern: string) => Promise<void>
  readonly unsubscribe?: (pattern: string) => void
}

export interface DoorbellOptions {
  /** The path of the socket; see doorbellPath. */
  readonly path: string
  /** Opens the LISTEN connection of this process. */
  readonly listen: (onMessage: (text: string) => void) => Promise<ListenConnection>
  readonly onMessage: (text: string) => void
  readonly clock: Clock
  readonly log: Log
}

// A host that is frozen or blocked is replaced after `silentMs`; until then its members find work by polling. A beat is one byte per
// member. A false alarm costs one more LISTEN connection.
const beatMs = 1_500
const silentMs = 6_000
// A host responds at once, or when its LISTEN connection is open. A slower one is replaced.
const joinWaitMs = 2_000
// More processes on one machine listen themselves.
const membersMax = 1_000
const patternsMax = 10_000
// A member that does not read is disconnected; it reads the database when it is back. 1 MB is about 3,000 rings.
const unreadMaxBytes = 1_048_576
// The limit of a socket's path on Linux is 107 bytes.
const pathMaxBytes = 100
const staleMs = 86_400_000

/** The socket of a database for the processes of this user; undefined if the folder of temporary files cannot hold it. */
export function doorbellPath(databaseUrl: string): string | undefined {
  const name = createHash('sha256').update(withoutUser(databaseUrl)).digest('hex').slice(0, 16)
  const path = join(tmpdir(), `bellwether-${userInfo().uid}`, `${name}.bell`)
  return Buffer.byteLength(path) <= pathMaxBytes - 16 ? path : undefined
}

/** Workers open the same database with a role of their own. */
function withoutUser(url: string): string {
  return URL.canParse(url) ? Object.assign(new URL(url), { username: '', password: '' }).href : url
}

export async function openDoorbell(options: DoorbellOptions): Promise<ListenConnection> {
  const { path, log } = options
  try {
    await ownFolder(dirname(path))
    const joined = await joinHost(options)
    return joined ?? (await host(options, await claim(path)))
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error && typeof error.syscall === 'string' && 'path' in error))
      throw error
    log.warn({ err: error, path }, 'cannot share the bell with other processes of this machine')
    return options.listen(options.onMessage)
  }
}

/** Creates the folder, or checks that only this user may use it, so that no other user reads or withholds rings. */
async function ownFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const { uid, mode } = await lstat(folder)
  if (uid === userInfo().uid && (mode & 0o077) === 0) return
  throw Object.assign(new Error('the folder must belong to this user and be closed to others'), {
    syscall: 'lstat',
    path: folder,
  })
}

// A message is below 8,000 bytes.
const lineMaxLength = 16_384

/** Calls `onLine` for each line. A longer line than any of ours ends the connection. */
function onLines(socket: Socket, onLine: (line: string) => void): void {
  let rest = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
    if (rest.length > lineMaxLength) socket.destroy()
  })
}

/** Joins the host of this machine. Undefined: there is none, or it does not respond. */
async function joinHost({ path, onMessage, clock }: DoorbellOptions): Promise<ListenConnection | undefined> {
  const socket = connect(path)
  const closed = deferred<unknown>()
  const ready = deferred<boolean>()
  const acknowledged = new Map<number, () => void>()
  let requests = 0
  const destroy = (reason: Error) => {
    closed.resolve(reason)
    ready.resolve(false)
    for (const done of acknowledged.values()) done()
    socket.destroy()
  }
  socket
    .on('error', destroy)
    .on('close', () => destroy(new PeerEnded('the process that shares the bell closed the connection')))
  socket.setTimeout(silentMs, () => destroy(new Error('the process that shares the bell is silent')))
  onLines(socket, (line) => {
    if (line === '') return
    const { ready: isReady, subscribed } = objectOf(parseJson(line))
    if (isReady === true) ready.resolve(true)
    else if (typeof subscribed === 'number') acknowledged.get(subscribed)?.()
    else onMessage(line)
  })
  const waiting = new AbortController()
  const late = clock.sleep(joinWaitMs, waiting.signal).then(() => false)
  const joined = await Promise.race([ready.promise, late])
  waiting.abort()
  if (!joined) {
    destroy(new Error('the process that shares the bell did not respond'))
    return undefined
  }
  const send = (message: object) => socket.write(`${JSON.stringify(message)}\n`)
  return {
    closed: closed.promise,
    destroy,
    close: async () => destroy(new Error('closed by its owner')),
    async subscribe(pattern) {
      const done = deferred<void>()
      const id = ++requests
      acknowledged.set(id, done.resolve)
      send({ subscribe: pattern, id })
      if (!socket.destroyed) await done.promise
      acknowledged.delete(id)
    },
    unsubscribe: (pattern) => void send({ unsubscribe: pattern }),
  }
}

interface Claimed {
  readonly server: Server
  readonly inode: number
}

/** Binds the socket under a name of its own and links it to the path, so that the path never names a socket without a server. */
async function claim(path: string): Promise<Claimed> {
  await removeStale(dirname(path))
  const own = `${path}.${process.pid}.${createHash('sha256').update(`${performance.now()}`).digest('hex').slice(0, 6)}`
  // After it listens, an error concerns one connection: its member connects again.
  const server = createServer().on('error', () => undefined)
  server.maxConnections = membersMax
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(own, resolve)
  })
  server.unref()
  await chmod(own, 0o600)
  // The host that owned the path did not respond.
  await unlink(path).catch(ignoreMissing)
  await link(own, path).catch((error: unknown) => {
    // Another process was faster: its members join it, and this one listens alone.
    if (!hasCode(error, 'EEXIST')) throw error
  })
  const { ino } = await lstat(own)
  await unlink(own).catch(ignoreMissing)
  return { server, inode: ino }
}

const ignoreMissing = (error: unknown) => {
  if (!hasCode(error, 'ENOENT')) throw error
}

/** Removes sockets of killed hosts. A host touches its socket with every beat. */
async function removeStale(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = join(folder, name)
    const stat = await lstat(file).catch(ignoreMissing)
    if (stat !== undefined && Date.now() - stat.mtimeMs > staleMs) await unlink(file).catch(ignoreMissing)
  }
}

interface Member {
  readonly socket: Socket
  readonly patterns: Map<string, number>
}

/** Listens for this process and its members. */
async function host(options: DoorbellOptions, { server, inode }: Claimed): Promise<ListenConnection> {
  const members = new Set<Member>()
  const ended = new AbortController()
  const end = async () => {
    ended.abort()
    server.close()
    for (const { socket } of members) socket.destroy()
    try {
      if ((await lstat(options.path)).ino === inode) await unlink(options.path)
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return
      // The next process that shares the bell replaces the socket.
      options.log.warn({ err: error, path: options.path }, 'cannot remove the socket of the shared bell')
    }
  }
  const listening = deferred<void>()
  server.on('connection', (socket) => void listening.promise.then(() => welcome(socket, members)))
  let connection: ListenConnection
  try {
    connection = await options.listen((text) => {
      options.onMessage(text)
      forward(text, members)
    })
  } catch (error) {
    await end()
    throw error
  }
  listening.resolve()
  void connection.closed.then(end)
  void beat(options, members, ended.signal)
  return connection
}

async function beat(
  { clock, path }: DoorbellOptions,
  members: ReadonlySet<Member>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    for (const { socket } of members) socket.write('\n')
    // Another host may have replaced or removed the socket; without the touch it counts as stale after a day.
    await utimes(path, new Date(), new Date()).catch(() => undefined)
    await clock.sleep(beatMs, signal)
  }
}

function welcome(socket: Socket, members: Set<Member>): void {
  if (socket.destroyed) return
  const member: Member = { socket, patterns: new Map() }
  socket.unref()
  // `close` follows every error.
  socket.on('error', () => undefined).on('close', () => members.delete(member))
  onLines(socket, (line) => {
    const { subscribe, id, unsubscribe } = objectOf(parseJson(line))
    if (typeof subscribe === 'string') {
      // The member then listens itself.
      if (member.patterns.size >= patternsMax) return void socket.destroy()
      member.patterns.set(subscribe, (member.patterns.get(subscribe) ?? 0) + 1)
      socket.write(`${JSON.stringify({ subscribed: id })}\n`)
    } else if (typeof unsubscribe === 'string') {
      const left = (member.patterns.get(unsubscribe) ?? 0) - 1
      if (left > 0) member.patterns.set(unsubscribe, left)
      else member.patterns.delete(unsubscribe)
    }
  })
  members.add(member)
  socket.write('{"ready":true}\n')
}

/** Sends a message to the members that wait for its subject. */
function forward(text: string, members: ReadonlySet<Member>): void {
  if (members.size === 0 || text.includes('\n')) return
  const { s: subject } = objectOf(parseJson(text))
  if (typeof subject !== 'string') return
  for (const { socket, patterns } of members) {
    if (![...patterns.keys()].some((pattern) => matches(pattern, subject))) continue
    if (socket.writableLength > unreadMaxBytes) socket.destroy()
    else socket.write(`${text}\n`)
  }
}
