/** What the sensor needs of a logger: fields first, then one sentence. A pino logger fits as it is. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /** The level above error; a logger without one gets an error that says `critical: true`. */
  fatal?(fields: object, message: string): void
}

export function critical(log: Log, fields: object, message: string): void {
  if (log.fatal === undefined) log.error({ ...fields, critical: true }, message)
  else log.fatal({ ...fields, critical: true }, message)
}
