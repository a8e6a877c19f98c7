/** Ids of audits: unguessable, so that no other session's end can be taken for ours. */
import { randomUUID } from 'node:crypto'

export interface Ids {
  next(): string
}

export const systemIds: Ids = { next: () => randomUUID() }
