/** Ids of audits: unpredictable, so that another session's request cannot end this sensor's audit. */
import { randomUUID } from 'node:crypto'

export interface Ids {
  next(): string
}

export const systemIds: Ids = { next: () => randomUUID() }
