/**
 * The scheduler's own session and the fibres' connections. A wire is one connection with its gate slot; the control
 * session always holds exactly one of the slot's two keys. Broken wires are ended for good and replaced by new ones.
 * Which fibre steps next is run.ts's.
 */
import { readFileSync } from 'node:fs'
import pg from 'pg'
import type { Queryable, Statement } from '../../src/ports/database/database.js'

export interface Answer {
  readonly rows: object[]
  /** What the server says it did: a COMMIT of a failed transaction answers ROLLBACK. */
  readonly command: string
}

export interface Wire {
  readonly pid: number
  query(statement: Statement): Promise<Answer>
  /** Opens a transaction and sets the database's clock, in one round trip. */
  begin(clockUs: number): Promise<void>
  /** Called with the gate's label when the backend reaches a gate. */
  onGate: ((label: string) => void) | undefined
  /** Lets the backend through the gate where it waits. */
  pass(clockUs: number): Promise<void>
  /** Keeps a backend that waits for a lock from running on by itself when the lock is granted. */
  freeze(): void
  thaw(): void
  /** Ends the backend; resolves when it is gone: its transaction rolled back, its locks released. */
  kill(): Promise<void>
}

/**
 * One plan per statement for ever, no second guesser of deadlocks (the engine sees cycles itself), no timeout that would
 * fire on real time while the fibre waits for its turn.
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

  /** Who blocks whom, by pid, now. A backend that runs has an empty list. */
  async blockers(pids: readonly number[]): Promise<Map<number, readonly number[]>> {
    const text = 'select pid, pg_blocking_pids(pid) as by from unnest($1::int[]) as pid'
    const rows = await this.query<{ pid: number; by: number[] }>({ name: 'sim-blockers', text, values: [pids] })
    return new Map(rows.map(({ pid, by }) => [pid, by]))
  }

  async take(): Promise<Wire> {
    return this.#idle.pop() ?? (await this.#connect())
  }

  /** Takes back a wire with no transaction open. Sorted, so that the next run hands out the same wires. */
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
    // A killed backend says so here; any other loss also rejects the query in flight, which reaches its fibre.
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
        // The order to end is pending by now, so a frozen backend wakes only to obey it.
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

  /** Some backend may wait at a gate or be frozen, so they are ended and not asked. */
  async close(): Promise<void> {
    for (const wire of this.#all) await wire.kill()
    await this.#client.end()
  }
}

/** Signals go to pids of this machine: a server elsewhere would make them somebody else's. */
function mustBeOurs(pid: number): void {
  let title = ''
  try {
    title = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch (error) {
    throw new Error('the simulation needs a PostgreSQL on this Linux machine, to freeze its backends', { cause: error })
  }
  if (!title.startsWith('postgres'))
    throw new Error(`process ${pid} is no PostgreSQL backend; is the server elsewhere?`)
}

/** The copy is needed, because the driver writes into the object it is given. */
function send(client: pg.Client, { name, text, values }: Statement): Promise<Answer> {
  return client.query<object>({ name, text, values: values as unknown[] })
}
