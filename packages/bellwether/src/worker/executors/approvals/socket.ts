/**
 * The socket over which the program of one turn asks for permission. It carries the right to ask for this turn and nothing else: no
 * request decides. The database holds requests and decisions, so that a worker that takes the turn over finds them. The
 * socket is one file in the turn's scratch folder, which a sandbox can bind; a secret in the program's environment protects it from other accounts.
 */
import { timingSafeEqual } from 'node:crypto'
import { chmodSync, copyFileSync, existsSync, lchownSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { type Clock, isObject, linkAbort, type Log, objectOf, parseJson, type Random } from '@bellwether/base'
import { nodeArguments } from '@bellwether/base/thread'
import { InvalidInput } from '@bellwether/protocol'
import type { Kernel } from '../../../kernel/kernel.js'
import { retryUntil } from '../../../ports/retry.js'
import { splitLines } from '../../../ports/processes/capture.js'
import type { Scratch } from '../../../ports/processes/scratch.js'
import type { TurnContext } from '../../agent.js'
import { exchangeOf } from '../repeats.js'
import { approvalSeconds } from '../../tools/timing.js'

export interface ApprovalsOptions {
  readonly kernel: Pick<Kernel, 'askApproval' | 'takeDecision' | 'ids'>
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
}

export interface TurnSocket {
  /** The variables that the program needs to ask. */
  readonly env: Readonly<Record<string, string>>
  /** The command that serves MCP to the program, for programs that ask over MCP. */
  readonly bridge: readonly string[]
  close(): void
}

/** A turn whose program asks. */
type AskingTurn = Pick<TurnContext, 'turn' | 'signal' | 'awaitPerson'>

export interface Approvals {
  /** Listens for the requests of one turn, on a socket in its scratch folder, until it is closed or the turn's signal aborts. */
  listen(
    context: AskingTurn,
    scratch: Pick<Scratch, 'shared' | 'account'>,
    withinSeconds: number | undefined,
  ): Promise<TurnSocket>
}

/** What a program that asks gets: the form of Claude Code's permission tool, without the arguments. */
type Answer = { readonly behavior: 'allow' } | { readonly behavior: 'deny'; readonly message: string }

// A request has the arguments of one call; more cannot be stored in a card.
const requestMaxBytes = 1_048_576
// Each may hold a request in memory. A program asks for one call at a time.
const connectionsMax = 32
const secretBytes = 32
// A person needs seconds; a check costs one read of a row.
const pollMs = 500
const patience = {
  backoff: { mode: 'exponential', baseMs: 400, multiplier: 2, maxMs: 5_000, jitterPct: 0 },
  maxMs: 300_000,
} as const

export function openApprovals({ kernel, clock, log, random }: ApprovalsOptions): Approvals {
  async function decide(
    { turn, awaitPerson }: AskingTurn,
    withinSeconds: number,
    request: PermissionRequest & { readonly approvalId: string },
    signal: AbortSignal,
  ) {
    const retried = <T>(verb: () => Promise<T>): Promise<T> => retryUntil(patience, verb, { clock, signal })
    const { tool_name: toolName, input: args, approvalId } = request
    const asked = await retried(() => kernel.askApproval({ ...turn, approvalId, toolName, args, withinSeconds }))
    if (asked.what === 'allowed') return allow
    if (asked.what === 'denied') return denied(asked.decided_by, asked.reason)
    if (asked.what === 'full') return deny('Denied: too many requests of this turn wait for a person.')
    if (asked.what === 'stale' || asked.approval_id === null) return undefined
    const id = asked.approval_id
    const decided = awaitPerson?.()
    try {
      for (;;) {
        const { what, decided_by: by, reason } = await retried(() => kernel.takeDecision(id, turn.turnEpoch))
        if (what === 'allowed') return allow
        if (what === 'denied') return denied(by, reason)
        if (what === 'expired') return deny('Denied: no one decided before the deadline.')
        // The program must not get an answer that belongs to another worker.
        if (what === 'stale' || what === 'ended') return undefined
        await clock.sleep(pollMs, signal)
        if (signal.aborted) return undefined
      }
    } finally {
      decided?.()
    }
  }

  return {
    async listen(context, { shared: folder, account }, withinSeconds = approvalSeconds({})) {
      const { turn } = context
      const secret = Buffer.from(random.bytes(secretBytes)).toString('base64url')
      const path = join(folder, 'approvals.sock')
      const over = linkAbort(context.signal)
      const sockets = new Set<Socket>()
      /** Requests whose program ended without an answer, for example because a message interrupted it. Asked again, they are the same. */
      const unanswered = new Map<string, string>()
      const server = createServer((socket) => {
        sockets.add(socket)
        socket.on('close', () => sockets.delete(socket))
        // A program that was killed: its request stays open, and `close` follows.
        socket.on('error', () => socket.destroy())
        let answers = false
        const lines = splitLines(requestMaxBytes, (line) => {
          if (answers) return
          answers = true
          void respond(socket, line)
        })
        // A connection has one answer. What follows the request is read, so that its end is noticed, and dropped.
        socket.on('data', (chunk) => {
          if (!answers) lines.add(chunk as Buffer)
        })
      })
      server.maxConnections = connectionsMax
      async function respond(socket: Socket, line: string): Promise<void> {
        const gone = linkAbort(over.signal)
        socket.on('close', () => gone.abort())
        const request = permissionRequest(line, secret)
        const key = exchangeOf(request?.tool_name, request?.input)
        const approvalId = unanswered.get(key) ?? kernel.ids.next()
        unanswered.delete(key)
        const isUnanswered = () => {
          if (request !== undefined && unanswered.size < connectionsMax) unanswered.set(key, approvalId)
        }
        try {
          const answer =
            request === undefined
              ? deny('Denied: the request is invalid, or is not of this turn.')
              : await decide(context, withinSeconds, { ...request, approvalId }, gone.signal)
          if (socket.destroyed) isUnanswered()
          else if (answer !== undefined) socket.end(`${JSON.stringify(answer)}\n`)
        } catch (error) {
          if (gone.signal.aborted) return isUnanswered()
          log.error({ err: error, agent_turn_id: turn.agentTurnId }, 'cannot store a request for approval')
          const reason = error instanceof InvalidInput ? error.message : 'the request could not be stored'
          socket.end(`${JSON.stringify(deny(`Denied: ${reason}.`))}\n`)
        } finally {
          gone.release()
        }
      }
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(path, resolve)
      })
      // Commands may run as another account; the secret decides who may ask.
      chmodSync(path, 0o666)
      const tokenFile = join(folder, 'approvals.token')
      writeFileSync(tokenFile, secret, { mode: 0o400, flag: 'wx' })
      if (account !== undefined) lchownSync(tokenFile, account.uid, account.gid)
      return {
        env: { BELLWETHER_APPROVALS: path, BELLWETHER_APPROVALS_TOKEN: secret },
        bridge: [...bridgeIn(folder), path, tokenFile],
        close() {
          over.abort()
          over.release()
          server.close()
          for (const socket of sockets) socket.destroy()
        },
      }
    },
  }
}

/**
 * The command of the bridge, in this folder: a sandbox shows neither the source nor its loader. Where only the source exists, the bridge
 * stays where its loader finds it.
 */
function bridgeIn(folder: string): string[] {
  const args = nodeArguments('./bridge', import.meta.url)
  const file = args.at(-1)!
  const isSource = file.endsWith('.ts')
  const built = isSource ? file.replace('/src/', '/dist/').replace(/\.ts$/, '.js') : file
  if (!existsSync(built)) return [process.execPath, ...args]
  const copy = join(folder, 'approvals-bridge.mjs')
  copyFileSync(built, copy)
  return [process.execPath, ...(isSource ? [] : args.slice(0, -1)), copy]
}

interface PermissionRequest {
  readonly tool_name: string
  readonly input: Readonly<Record<string, unknown>>
}

const allow: Answer = { behavior: 'allow' }
const deny = (message: string): Answer => ({ behavior: 'deny', message })
const denied = (by: string | null, reason: string | null) =>
  deny(`Denied by ${by ?? 'a person'}${reason === null ? '' : `: ${reason}`}.`)

/** Undefined if the line is not a request with the turn's secret. */
function permissionRequest(line: string, secret: string): PermissionRequest | undefined {
  const { token, tool_name: tool, input } = objectOf(parseJson(line))
  if (typeof token !== 'string' || typeof tool !== 'string' || tool === '' || !isObject(input)) return undefined
  const [given, wanted] = [Buffer.from(token), Buffer.from(secret)]
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined
  return { tool_name: tool, input }
}
