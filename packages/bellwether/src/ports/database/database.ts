/**
 * The product's interface to PostgreSQL. The URL comes from embedded.ts or from an external server; pool.ts implements the
 * interface for a URL. The simulation has its own implementation, which pauses before every statement.
 */
export interface Statement {
  /** A statement with a name is prepared once per connection. */
  readonly name?: string
  readonly text: string
  readonly values?: readonly unknown[]
}

export interface Queryable {
  query<Row extends object>(statement: Statement): Promise<Row[]>
}

export interface Database extends Queryable {
  /** Commits when `run` returns, rolls back when it throws. Nothing may leave the process from inside `run`. */
  transaction<T>(run: (tx: Queryable) => Promise<T>): Promise<T>
  close(): Promise<void>
}
