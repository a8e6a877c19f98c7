/**
 * What the rest of the house sees of PostgreSQL. Two adapters give a URL (embedded.ts, an external server's own URL);
 * one pool (pool.ts) turns a URL into this interface; the simulation has another that stops before every statement.
 */
export interface Statement {
  /** Statements with a name are prepared once per connection. */
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
