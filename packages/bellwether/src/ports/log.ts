/**
 * What the ports need of a logger: fields first, then one sentence. A pino logger fits as it is. Where lines go, and at
 * which level, is decided by whoever composes the process.
 */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
