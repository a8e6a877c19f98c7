/**
 * Who may do what: the permission matrix of the four sources of evidence, as one table (V6.2). Realtime rows are causes:
 * the kernel of a host said that something happened. Snapshot, audit and on-demand rows are looks: somebody read the
 * directory, at some moment. Everything that arbitration does with marks is read from here.
 */
import type { MessageSource } from '@bellwether/protocol'

export interface Authority {
  /** When it takes the suspect mark away. */
  readonly clearsSuspect: 'atomic write' | 'never'
  /** Which files it makes suspects. */
  readonly marksSuspect: 'partial write' | 'hot file'
  /** What it does to a path in the lists of blind spots. */
  readonly blindSpot: 'clears' | 'leaves' | 'marks'
  readonly setsLastUpdated: boolean
  /** What `known_by_agent` becomes when its row is taken. */
  readonly knownByAgent: boolean
  readonly samplesClock: boolean
  /** All may bring a deleted file back when its mtime is newer than its tombstone; realtime also when it is older. */
  readonly reincarnates: 'always' | 'newer than the tombstone'
  /** Whether memory with the same or a newer mtime wins over it (V6.6, rule 2). */
  readonly bowsToNewerMemory: boolean
  /** Whether an unknown file is dropped when memory knows its parent newer than the row does (V6.6, rule 3). */
  readonly bowsToNewerParent: boolean
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
    bowsToNewerMemory: false,
    bowsToNewerParent: false,
  },
  snapshot: {
    clearsSuspect: 'never',
    marksSuspect: 'hot file',
    blindSpot: 'leaves',
    setsLastUpdated: false,
    knownByAgent: true,
    samplesClock: false,
    reincarnates: 'newer than the tombstone',
    bowsToNewerMemory: true,
    bowsToNewerParent: false,
  },
  audit: {
    clearsSuspect: 'never',
    marksSuspect: 'hot file',
    blindSpot: 'marks',
    setsLastUpdated: false,
    knownByAgent: false,
    samplesClock: false,
    reincarnates: 'newer than the tombstone',
    bowsToNewerMemory: true,
    bowsToNewerParent: true,
  },
  on_demand_job: {
    clearsSuspect: 'never',
    marksSuspect: 'hot file',
    blindSpot: 'marks',
    setsLastUpdated: false,
    knownByAgent: false,
    samplesClock: false,
    reincarnates: 'newer than the tombstone',
    bowsToNewerMemory: true,
    bowsToNewerParent: false,
  },
}
