/**
 * What a component needs of a logger: fields first, then a stable lower-case phrase. A pino logger fits as it is. Where lines
 * go, and at which level, is decided by the process that composes the components.
 */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /** The level above error; a logger without it gets an error with `critical: true`. */
  fatal?(fields: object, message: string): void
}

export function critical(log: Log, fields: object, message: string): void {
  if (log.fatal === undefined) log.error({ ...fields, critical: true }, message)
  else log.fatal({ ...fields, critical: true }, message)
}
