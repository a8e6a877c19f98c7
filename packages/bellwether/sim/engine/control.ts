/**
 * The scheduler's session and the connections of the fibres. A wire is one connection with its gate slot; the control session always holds
 * exactly one of the slot's two keys. A broken wire is closed and replaced. run.ts decides which fibre steps next.
 */
import { readFileSync } from 'node:fs'
import pg from 'pg'
import type { Queryable, Statement } from '../../src/ports/database/database.js'

interface Answer {
  readonly rows: object[]
  /** The command tag of the server: a COMMIT of a failed transaction returns ROLLBACK. */
  readonly command: string
}

export interface Wire {
  readonly pid: number
  query(statement: Statement): Promise<Answer>
  /** Opens a transaction and sets the database's clock, in one round trip. */
  begin(clockUs: number): Promise<void>
  /** Called with the gate's label when the backend reaches a gate. */
  onGate: ((label: string) => void) | undefined
  /** Lets the backend pass the gate where it waits. */
  pass(clockUs: number): Promise<void>
  /** Freezes a backend that waits for a lock, so that it does not continue by itself when the lock is granted. */
  freeze(): void
  thaw(): void
  /** Ends the backend; resolves when its transaction is rolled back and its locks are released. */
  kill(): Promise<void>
}

/**
 * A fixed plan per statement, no deadlock detection by the server (the engine detects cycles), and no timeout on real time while the
 * fibre waits for its step.
 */
const sessionSettings =
  `set deadlock_timeout = '1h'; set plan_cache_mode = force_generic_plan; set jit = off; set lock_timeout = 0; ` +
  `set max_parallel_workers_per_gather = 0; set statement_timeout = 0; set idle_in_transaction_session_timeout = 0; ` +
  `set client_min_messages = notice; set synchronous_commit = off;`

export class Control implements Queryable {
  readonly #config: pg.ClientConfig
  readonly #client: pg.Client
  readonly #idle: Wire[] = []
  readonly #all = new Set<Wire>()
  #slots = 0

  private constructor(config: pg.ClientConfig, client: pg.Client) {
    this.#config = config
    this.#client = client
  }

  static async open(config: pg.ClientConfig): Promise<Control> {
    const client = new pg.Client(config)
    await client.connect()
    return new Control(config, client)
  }

  async query<Row extends object>(statement: Statement): Promise<Row[]> {
    return (await send(this.#client, statement)).rows as Row[]
  }

  /** Which backend is blocked by which, by pid. A running backend has an empty list. */
  async blockers(pids: readonly number[]): Promise<Map<number, readonly number[]>> {
    const text = 'select pid, pg_blocking_pids(pid) as by from unnest($1::int[]) as pid'
    const rows = await this.query<{ pid: number; by: number[] }>({ name: 'sim-blockers', text, values: [pids] })
    return new Map(rows.map(({ pid, by }) => [pid, by]))
  }

  async take(): Promise<Wire> {
    return this.#idle.pop() ?? (await this.#connect())
  }

  /** Returns a wire without an open transaction to the pool. Sorted, so that the next run uses the same wires. */
  giveBack(wire: Wire): void {
    this.#idle.push(wire)
    this.#idle.sort((a, b) => b.pid - a.pid)
  }

  async #connect(): Promise<Wire> {
    const client = new pg.Client(this.#config)
    let gone = false
    let ended = (): void => undefined
    const end = new Promise<void>((resolve) => (ended = resolve))
    client.on('end', () => {
      gone = true
      ended()
    })
    // A killed backend reports here; any other connection loss also rejects the query in flight.
    client.on('error', () => undefined)
    await client.connect()
    const slot = this.#slots++
    let held = slot * 2
    await this.query({ text: 'select sim.hold($1)', values: [held] })
    await client.query(`${sessionSettings} set sim.fibre = '${slot}'`)
    const { pid } = (await send(client, { text: 'select pg_backend_pid() as pid' })).rows[0] as { pid: number }
    mustBeOurs(pid)
    let frozen = false
    const thaw = (): void => {
      if (frozen && !gone) process.kill(pid, 'SIGCONT')
      frozen = false
      process.off('exit', thaw)
    }
    const wire: Wire = {
      pid,
      onGate: undefined,
      query: (statement) => send(client, statement),
      begin: async (clockUs) => {
        await client.query(`begin; select setval('sim.clock', ${clockUs})`)
      },
      pass: async (clockUs) => {
        const next = held ^ 1
        await this.query({ name: 'sim-pass', text: 'select sim.pass($1, $2, $3)', values: [held, next, clockUs] })
        held = next
      },
      freeze: () => {
        frozen = true
        process.kill(pid, 'SIGSTOP')
        process.once('exit', thaw)
      },
      thaw,
      kill: async () => {
        this.#all.delete(wire)
        wire.onGate = undefined
        if (!gone) await this.query({ text: 'select pg_terminate_backend($1)', values: [pid] })
        // The termination is already pending, so a frozen backend wakes only to end.
        thaw()
        await end
        await this.query({ text: 'select sim.drop($1)', values: [held] })
      },
    }
    client.on('notice', (notice) => {
      if (notice.code === 'SIM01') wire.onGate?.(notice.message ?? '')
    })
    this.#all.add(wire)
    return wire
  }

  /** Terminates the backends, because one may wait at a gate or be frozen. */
  async close(): Promise<void> {
    for (const wire of this.#all) await wire.kill()
    await this.#client.end()
  }
}

/** Signals go to pids of this machine: with a remote server they would hit other processes. */
function mustBeOurs(pid: number): void {
  let title = ''
  try {
    title = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch (error) {
    throw new Error(
      'The simulation needs a PostgreSQL on this Linux machine, because it freezes backends with signals',
      { cause: error },
    )
  }
  if (!title.startsWith('postgres'))
    throw new Error(`Process ${pid} is not a PostgreSQL backend: use a server on this machine`)
}

/** A copy, because the driver writes into the object. */
function send(client: pg.Client, { name, text, values }: Statement): Promise<Answer> {
  return client.query<object>({ name, text, values: values as unknown[] })
}
