/**
 * An MCP server as a child process, talked to by its stdin and stdout. Always: it leads a session of its own and carries a token,
 * so that its whole family can be found; the guardian watches before it starts and ends it when this process cannot; when the
 * connection is over, nothing of the family is left.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import type { Clock } from '@bellwether/base'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { JSONRPCMessageSchema, type JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { keepTail } from '../processes/capture.js'
import { killTree } from '../processes/kill-tree.js'
import type { Guardian, Watch } from '../processes/guardian.js'
import { messageLines } from './lines.js'
import type { McpTransport } from './server.js'

export interface StdioOptions {
  readonly clock: Clock
  readonly guardian: Guardian
  readonly command: readonly [program: string, ...args: string[]]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** In its environment: what its family is known by. */
  readonly token: string
  readonly graceMs: number
  /** How often the guardian is told that this process lives. */
  readonly renewMs: number
  readonly messageMaxBytes: number
  readonly onError: (message: string) => void
}

// The end of what it complained about is what explains its death.
const stderrMaxBytes = 4_096

export function stdioTransport(options: StdioOptions): McpTransport {
  const transport = new StdioTransport(options)
  return { transport, lastError: () => transport.stderrTail }
}

class StdioTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  readonly #options: StdioOptions
  readonly #over = new AbortController()
  readonly #stderr = keepTail(stderrMaxBytes)
  #child: ChildProcess | undefined
  #watch: Watch | undefined
  #ended: Promise<void> | undefined

  constructor(options: StdioOptions) {
    this.#options = options
  }

  /** The end of what it wrote to stderr. */
  get stderrTail(): string {
    return this.#stderr.text().trim()
  }

  async start(): Promise<void> {
    const { clock, guardian, command, cwd, env, token, messageMaxBytes, onError: onTrouble } = this.#options
    const watch = await guardian.watch(token, clock.monotonicMs())
    this.#watch = watch
    try {
      const [program, ...args] = command
      this.#child = spawn(program, args, { cwd, env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] })
      await spawned(this.#child)
    } catch (error) {
      watch.release()
      throw error
    }
    const child = this.#child
    if (child.pid !== undefined) watch.root(child.pid)
    watch.lost.addEventListener('abort', () => void this.close(), { once: true })
    void this.#renew(watch)
    const lines = messageLines({
      maxBytes: messageMaxBytes,
      onMessage: (message) => this.#hear(message),
      onError: onTrouble,
    })
    child.stdout?.on('data', (chunk: Buffer) => lines.add(chunk))
    child.stderr?.on('data', (chunk: Buffer) => this.#stderr.add(chunk))
    for (const stream of [child.stdin, child.stdout, child.stderr])
      stream?.on('error', (error: Error) => this.onerror?.(error))
    child.on('error', (error) => this.onerror?.(error))
    // Not `close`: descendants may hold its outputs open for as long as they like.
    child.once('exit', () => void this.close())
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin
    if (stdin === null || stdin === undefined || this.#over.signal.aborted) throw new Error('the MCP server is gone')
    await new Promise<void>((resolve, reject) => {
      // Resolves when the pipe has taken it: a server that reads nothing holds up its own callers only.
      stdin.write(`${JSON.stringify(message)}\n`, (error) => {
        if (error === null || error === undefined) resolve()
        else reject(error)
      })
    })
  }

  close(): Promise<void> {
    this.#ended ??= this.#end()
    return this.#ended
  }

  async #end(): Promise<void> {
    this.#over.abort()
    const { clock, graceMs, token, onError: onTrouble } = this.#options
    const child = this.#child
    child?.stdin?.end()
    const root = child?.pid === undefined ? {} : { root: child.pid }
    const left = await killTree({ clock, graceMs, wanted: (other) => other === token, ...root })
    for (const stream of [child?.stdout, child?.stderr]) stream?.destroy()
    if (left.length === 0) this.#watch?.release()
    else onTrouble(`processes of the server could not be ended: ${left.join(', ')}`)
    this.onclose?.()
  }

  #hear(message: unknown): void {
    const parsed = JSONRPCMessageSchema.safeParse(message)
    if (parsed.success) this.onmessage?.(parsed.data)
    else this.#options.onError('a message that is not of the protocol')
  }

  async #renew(watch: Watch): Promise<void> {
    const { clock, renewMs } = this.#options
    while (!this.#over.signal.aborted) {
      watch.renew(clock.monotonicMs())
      await clock.sleep(renewMs, this.#over.signal)
    }
  }
}

function spawned(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', reject)
  })
}
