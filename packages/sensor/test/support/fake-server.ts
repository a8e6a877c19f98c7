/**
 * A small server of the pipe protocol for tests of the sensor alone: it accepts every row, ends audits like the view does (an
 * entry is missing only if its directory was listed in full without it), and can be made to fail.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { defined } from '@bellwether/base'
import { pipeLimits, type FileRow, type IngestRequest, type PipeRole } from '@bellwether/protocol'

export interface RecordedRequest {
  readonly route: string
  readonly session: string
  readonly atMs: number
  readonly body: Readonly<Record<string, unknown>>
}

export interface FakeServerOptions {
  readonly sessionTimeoutSeconds?: number
  readonly auditSeconds?: number
  readonly sentinelSeconds?: number
  readonly role?: PipeRole
}

export class FakeServer {
  readonly requests: RecordedRequest[] = []
  readonly tree = new Map<string, FileRow>()
  /** Rows of the realtime stream alone. */
  readonly realtime: { type: string; row: FileRow }[] = []
  readonly confirmed: string[] = []
  readonly audits: { id: string; complete: boolean; rows: FileRow[]; error?: string }[] = []
  readonly jobs = new Map<string, { rows: FileRow[]; complete?: boolean; error?: string }>()
  snapshots = 0
  role: PipeRole
  /** Returns this status instead for requests whose `METHOD path session` matches. */
  fail: { readonly route: RegExp; readonly status: number; times: number } | undefined
  /** Handles one request for this route and closes its connection without a response. */
  loseResponseOf: string | undefined
  /** Longer requests get status 413, like from a proxy. */
  bodyBytesMax = pipeLimits.inflatedBytesMax
  suspects: string[] = []
  readonly feedback: { path: string; status?: string; mtime?: number }[] = []
  #commands: unknown[] = []
  #ended = new Set<string>()
  #parked = new Set<() => void>()
  #open = new Map<string, { rows: FileRow[]; reported: Set<string>; closed: Set<string> }>()
  #sessions = 0
  #server: Server | undefined
  readonly #options: FakeServerOptions
  readonly #lastSeq = new Map<string, number>()
  port = 0

  constructor(options: FakeServerOptions = {}) {
    this.#options = options
    this.role = options.role ?? 'leader'
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }
  get sessions(): number {
    return this.#sessions
  }
  get session(): string {
    return `s${this.#sessions}`
  }
  of(route: string): RecordedRequest[] {
    return this.requests.filter((each) => each.route === route)
  }

  async start(port = 0): Promise<this> {
    const server = createServer((request, response) => void this.#take(request, response))
    this.#server = server
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    this.port = (server.address() as AddressInfo).port
    return this
  }
  async stop(): Promise<void> {
    const server = this.#server
    if (server === undefined) return
    for (const wake of this.#parked) wake()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    this.#server = undefined
  }

  command(command: unknown): void {
    this.#commands.push(command)
    this.#wake()
  }
  setRole(role: PipeRole): void {
    this.role = role
    this.#wake()
  }
  endSession(id = this.session): void {
    this.#ended.add(id)
    this.#wake()
  }
  #wake(): void {
    for (const wake of [...this.#parked]) wake()
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const raw = Buffer.concat(chunks)
    const text = request.headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw
    if (text.length > this.bodyBytesMax) {
      response.writeHead(413, { 'content-type': 'application/json' }).end('{"title":"too large"}')
      return
    }
    const body = (text.length === 0 ? {} : JSON.parse(text.toString())) as Record<string, unknown>
    const url = new URL(request.url ?? '/', 'http://x')
    const path = url.pathname.replace('/api/v1/pipe/', '')
    const session = /^(?:session|ingest)\/([^/]+)/.exec(path)?.[1] ?? ''
    const route = `${request.method} ${session === '' ? path : path.replace(session, ':id')}`
    this.requests.push({ route, session, atMs: performance.now(), body })
    const answer = (status: number, value: unknown) => {
      if (response.writableEnded) return
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    }
    const { fail } = this
    if (fail !== undefined && fail.times > 0 && fail.route.test(`${route} ${session}`)) {
      fail.times -= 1
      return answer(fail.status, { title: 'made to fail' })
    }
    if (this.#ended.has(session)) return answer(419, { title: 'session has ended' })
    const value = await this.#answer(route, session, body, url, answer)
    if (this.loseResponseOf === route) {
      this.loseResponseOf = undefined
      return void response.destroy()
    }
    answer(200, value)
  }

  async #answer(
    route: string,
    session: string,
    body: Record<string, unknown>,
    _url: URL,
    answer: (status: number, value: unknown) => void,
  ): Promise<unknown> {
    if (route === 'POST session/') {
      this.#sessions += 1
      const wanted = Number(body['session_timeout_seconds'] ?? 0)
      return {
        session_id: this.session,
        role: this.role,
        session_timeout_seconds: Math.max(wanted, this.#options.sessionTimeoutSeconds ?? 3),
        audit_interval_sec: this.#options.auditSeconds ?? 3_600,
        sentinel_interval_sec: this.#options.sentinelSeconds ?? 3_600,
        message: 'welcome',
      }
    }
    if (route === 'POST session/:id/heartbeat') {
      if (this.#commands.length === 0) await this.#park(Number(body['wait_seconds'] ?? 0), session)
      if (this.#ended.has(session)) {
        answer(419, {})
        return {}
      }
      return { status: 'ok', role: this.role, commands: this.#commands.splice(0), health: {} }
    }
    if (route === 'POST ingest/:id/events') return this.#ingest(session, body as unknown as IngestRequest)
    if (route === 'POST consistency/audit/start') {
      const none = { rows: [], reported: new Set<string>(), closed: new Set<string>() }
      this.#open.set(String(body['audit_id']), none)
      return { status: 'ok', audit_id: body['audit_id'] }
    }
    if (route === 'GET consistency/sentinel/tasks')
      return this.suspects.length === 0 ? {} : { type: 'suspect_check', paths: this.suspects, source_id: 'x' }
    if (route === 'POST consistency/sentinel/feedback') {
      this.feedback.push(...(body['updates'] as { path: string }[]))
      return { status: 'ok' }
    }
    return { status: 'ok' }
  }

  #park(seconds: number, _session: string): Promise<void> {
    const before = this.role
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        this.#parked.delete(done)
        resolve()
      }
      const timer = setTimeout(done, seconds * 1_000)
      this.#parked.add(done)
      if (before !== this.role) done()
    })
  }

  #ingest(session: string, request: IngestRequest): unknown {
    const { metadata, source_type: type } = request
    const rows = request.events.flatMap((event) => event.rows.map((row) => ({ type: event.event_type, row })))
    if (type === 'message') {
      const seq = metadata?.seq ?? 0
      if (seq <= (this.#lastSeq.get(session) ?? 0)) return { status: 'ok', count: 0, stale: true }
      this.#lastSeq.set(session, seq)
      this.realtime.push(...rows)
      this.confirmed.push(...(metadata?.barriers ?? []))
    }
    const audit = this.#open.get(metadata?.audit_id ?? '')
    const job = metadata?.job_id
    if (job !== undefined && !this.jobs.has(job)) this.jobs.set(job, { rows: [] })
    for (const { type: kind, row } of rows) {
      if (kind === 'delete') this.#drop(row.path)
      else if (row.scan_complete !== true) this.tree.set(row.path, row)
      if (type === 'audit' && audit !== undefined) {
        audit.rows.push(row)
        if (row.scan_complete === true) audit.closed.add(row.path)
        else audit.reported.add(row.path)
      }
      if (job !== undefined) this.jobs.get(job)!.rows.push(row)
    }
    if (type === 'job_complete' && job !== undefined) Object.assign(this.jobs.get(job)!, metadata)
    if (type === 'snapshot' && request.is_end === true) this.snapshots += 1
    if (type === 'audit' && request.is_end === true && audit !== undefined) {
      const complete = metadata?.complete === true
      const id = String(metadata?.audit_id)
      this.#open.delete(id)
      if (complete) this.#dropMissing(audit)
      const error = metadata?.error
      this.audits.push({ id, complete, rows: audit.rows, ...defined({ error }) })
    }
    return { status: 'ok', count: rows.length }
  }

  #dropMissing({ reported, closed }: { reported: Set<string>; closed: Set<string> }): void {
    for (const path of [...this.tree.keys()]) {
      const parent = path.slice(0, Math.max(1, path.lastIndexOf('/')))
      if (path !== '/' && closed.has(parent) && !reported.has(path)) this.#drop(path)
    }
  }
  #drop(path: string): void {
    this.tree.delete(path)
    for (const each of [...this.tree.keys()]) if (each.startsWith(`${path}/`)) this.tree.delete(each)
  }
}
