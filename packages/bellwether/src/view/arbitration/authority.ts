/**
 * The permission matrix of the four row origins as one table (V6.2). Realtime rows report a change that the kernel of a host
 * saw happen. Snapshot, audit and on-demand rows report what a scan read from a directory at some moment. Arbitration takes
 * every rule about marks from this table.
 */
import type { MessageSource } from '@bellwether/protocol'

export interface Authority {
  /** When it clears the suspect mark. */
  readonly clearsSuspect: 'atomic write' | 'never'
  /** Which files it marks as suspects. */
  readonly marksSuspect: 'partial write' | 'hot file'
  /** What it does to the path's blind spots. */
  readonly blindSpot: 'clears' | 'leaves' | 'marks'
  readonly setsLastUpdated: boolean
  /** The value of `known_by_agent` after its row is accepted. */
  readonly knownByAgent: boolean
  readonly samplesClock: boolean
  /** Every origin may recreate a deleted file whose mtime is newer than its tombstone; realtime may also if it is older. */
  readonly reincarnates: 'always' | 'newer than the tombstone'
  /** Whether memory with the same or a newer mtime wins over it (V6.6, rule 2). */
  readonly yieldsToNewerMemory: boolean
  /** Whether an unknown file is dropped if memory has a newer parent directory than the row (V6.6, rule 3). */
  readonly yieldsToNewerParent: boolean
}

export const authority: Readonly<Record<MessageSource, Authority>> = {
  realtime: {
    clearsSuspect: 'atomic write',
    marksSuspect: 'partial write',
    blindSpot: 'clears',
    setsLastUpdated: true,
    knownByAgent: true,
    samplesClock: true,
    reincarnates: 'always',
    yieldsToNewerMemory: false,
    yieldsToNewerParent: false,
  },
  snapshot: {
    clearsSuspect: 'never',
    marksSuspect: 'hot file',
    blindSpot: 'leaves',
    setsLastUpdated: false,
    knownByAgent: true,
    samplesClock: false,
    reincarnates: 'newer than the tombstone',
    yieldsToNewerMemory: true,
    yieldsToNewerParent: false,
  },
  audit: {
    clearsSuspect: 'never',
    marksSuspect: 'hot file',
    blindSpot: 'marks',
    setsLastUpdated: false,
    knownByAgent: false,
    samplesClock: false,
    reincarnates: 'newer than the tombstone',
    yieldsToNewerMemory: true,
    yieldsToNewerParent: true,
  },
  on_demand_job: {
    clearsSuspect: 'never',
    marksSuspect: 'hot file',
    blindSpot: 'marks',
    setsLastUpdated: false,
    knownByAgent: false,
    samplesClock: false,
    reincarnates: 'newer than the tombstone',
    yieldsToNewerMemory: true,
    yieldsToNewerParent: false,
  },
}
