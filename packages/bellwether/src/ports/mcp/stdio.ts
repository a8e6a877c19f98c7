/**
 * Runs an MCP server as a child process and talks to it over stdin and stdout. The child leads its own session and carries a token,
 * so that its process tree can be found. The guardian watches before it starts and ends it if this process cannot. After the
 * connection has closed, no process of the tree is left.
 */
import type { ChildProcess } from 'node:child_process'
import { type Clock, defined, onAbort } from '@bellwether/base'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { JSONRPCMessageSchema, type JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { keepTail } from '../processes/capture.js'
import { leaveCgroup } from '../processes/cgroup.js'
import { spawnContained } from '../processes/contain.js'
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
  /** In its environment; identifies its process tree. */
  readonly token: string
  readonly graceMs: number
  /** How often this process renews its watch with the guardian. */
  readonly renewMs: number
  readonly messageMaxBytes: number
  readonly onError: (message: string) => void
}

// The last lines usually explain why it ended.
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

  /** The last bytes of its stderr. */
  get stderrTail(): string {
    return this.#stderr.text().trim()
  }

  async start(): Promise<void> {
    const { clock, guardian, command, cwd, env, token, messageMaxBytes, onError: onTrouble } = this.#options
    const watch = await guardian.watch(token, clock.monotonicMs())
    this.#watch = watch
    try {
      const started = spawnContained(command, { cwd, env, stdin: 'pipe', token })
      this.#child = started.child
      await spawned(this.#child)
      // Not `close` of the child: descendants may keep the outputs open.
      void started.exit.then(() => this.close())
    } catch (error) {
      watch.release()
      throw error
    }
    const child = this.#child
    if (child.pid !== undefined) watch.root(child.pid)
    onAbort(watch.lost, () => void this.close())
    void this.#renew(watch)
    const lines = messageLines({
      maxBytes: messageMaxBytes,
      onMessage: (message) => this.#receive(message),
      onError: onTrouble,
    })
    child.stdout?.on('data', (chunk: Buffer) => lines.add(chunk))
    child.stderr?.on('data', (chunk: Buffer) => this.#stderr.add(chunk))
    for (const stream of [child.stdin, child.stdout, child.stderr])
      stream?.on('error', (error: Error) => this.onerror?.(error))
    child.on('error', (error) => this.onerror?.(error))
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin
    if (stdin === null || stdin === undefined || this.#over.signal.aborted) throw new Error('The MCP server has ended')
    await new Promise<void>((resolve, reject) => {
      // Resolves when the pipe has accepted the message: a server that does not read delays only its own callers.
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
    const left = await killTree({
      clock,
      graceMs,
      wanted: (other) => other === token,
      ...defined({ root: child?.pid }),
    })
    leaveCgroup(token)
    for (const stream of [child?.stdout, child?.stderr]) stream?.destroy()
    if (left.length === 0) this.#watch?.release()
    else onTrouble(`cannot end processes of the server: ${left.join(', ')}`)
    this.onclose?.()
  }

  #receive(message: unknown): void {
    const parsed = JSONRPCMessageSchema.safeParse(message)
    if (parsed.success) this.onmessage?.(parsed.data)
    else this.#options.onError('message is not valid JSON-RPC')
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
