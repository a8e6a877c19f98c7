/**
 * Decides whether one row changes memory, given the known entry, its tombstone and the clocks. Pure: `source-state.ts`
 * carries the decision out. The rules run in the order of `decide`; the first that objects keeps memory as it is.
 * `authority.ts` says which rules bind which origin.
 */
import type { MessageSource } from '@bellwether/protocol'
import { authority } from './authority.js'

/** The entry in memory at the row's path. */
export interface KnownEntry {
  readonly isDirectory: boolean
  readonly isSymlink: boolean
  readonly size: number
  readonly modifiedTime: number
  /** Server ms of the last realtime row; 0: never. */
  readonly lastUpdatedAt: number
  readonly agent: string | undefined
  /** Created only because a child's row arrived first. */
  readonly placeholder: boolean
}

/** A remembered deletion of the path, or of a parent directory that no longer exists. */
export interface Tombstone {
  /** Seconds on the logical clock: a file with a newer mtime is a new file. */
  readonly logical: number
  /** Server ms. */
  readonly physicalAt: number
  /** When the deleting sensor saw it: server ms, by the measured offset of that sensor's clock. */
  readonly seenAt: number
  readonly agent: string
  /** When the deleted entry was created, in seconds since 1970; undefined: the view did not have it. */
  readonly createdTime?: number | undefined
}

export interface RowEvent {
  readonly origin: MessageSource
  readonly isDirectory: boolean
  readonly isSymlink: boolean
  readonly size: number
  readonly modifiedTime: number
  readonly atomic: boolean
  readonly parentMtime: number | undefined
  readonly agent: string
  /** When the sensor saw it: server ms, by the measured offset of the sensor's clock. */
  readonly seenAt: number
}

export interface Context {
  readonly known: KnownEntry | undefined
  readonly tombstone: Tombstone | undefined
  /** The parent directory, if memory has it and it is not a placeholder. */
  readonly parent: { readonly modifiedTime: number; readonly lastUpdatedAt: number } | undefined
  /** Seconds on the logical clock. */
  readonly watermark: number
  readonly hotSeconds: number
  /**
   * When the scan that produced this row began (server ms), if the view knows: the start of the audit, or the moment the
   * on-demand scan was requested. What memory learned before is older evidence.
   */
  readonly scanBeganAt: number | undefined
  readonly scanPurpose: ScanPurpose
}

/** `requested`: a reader requested the scan. `settling`: the view requested it because evidence disagreed. */
export type ScanPurpose = 'routine' | 'requested' | 'settling'

type KeepReason = 'tombstone' | 'memory_newer' | 'same' | 'parent_newer' | 'late_event'

/** Memory stays as it is. `disputed`: a later scan contradicts memory, so a settling scan of that path must decide. */
export interface Keep {
  readonly take: false
  readonly reason: KeepReason
  readonly disputed: 'no' | 'path' | 'parent'
}

/** The row replaces the entry in memory, with these marks. */
export interface Take {
  readonly take: true
  readonly reincarnates: boolean
  readonly suspect: 'mark' | 'clear' | 'leave'
  /** How long the suspect mark lasts before the file is checked again. */
  readonly suspectSeconds: number
  readonly blindSpot: 'mark' | 'clear' | 'leave'
  readonly knownByAgent: boolean
  readonly touches: boolean
  readonly samplesClock: boolean
}

export type Decision = Keep | Take

const keep = (reason: KeepReason, disputed: Keep['disputed'] = 'no'): Keep => ({ take: false, reason, disputed })

export function decide(row: RowEvent, context: Context): Decision {
  return (
    tombstoneRule(row, context) ??
    lateEventRule(row, context) ??
    newerMemoryRule(row, context) ??
    newerParentRule(row, context) ??
    accept(row, context)
  )
}

/** Whether the scan began after `at`: then the scan is the newer evidence. */
const scannedAfter = (context: Context, at: number) => context.scanBeganAt !== undefined && at < context.scanBeganAt

/** V6.3: a scan that began before a deletion does not undo it. A file that is newer than its tombstone is a new file. */
function tombstoneRule(row: RowEvent, context: Context): Keep | undefined {
  const { tombstone } = context
  if (tombstone === undefined || row.modifiedTime > tombstone.logical) return undefined
  if (authority[row.origin].reincarnates === 'always') {
    // The deleting sensor sends its rows in order; another sensor's row is older than the deletion if it was seen before it.
    return row.agent !== tombstone.agent && row.seenAt < tombstone.seenAt ? keep('tombstone') : undefined
  }
  const later = scannedAfter(context, tombstone.physicalAt)
  if (later && context.scanPurpose === 'settling') return undefined
  return keep('tombstone', later ? 'path' : 'no')
}

/** Rejects the older of two sensors' changes if it arrives last. Rows of one sensor are in order, even if an mtime goes back. */
function lateEventRule(row: RowEvent, { known }: Context): Keep | undefined {
  if (authority[row.origin].yieldsToNewerMemory || known === undefined || known.agent === row.agent) return undefined
  return row.modifiedTime < known.modifiedTime && row.seenAt < known.lastUpdatedAt ? keep('late_event') : undefined
}

/** V6.6 (2): memory with the same or a newer mtime wins over a scan, unless the scan was requested later to find out. */
function newerMemoryRule(row: RowEvent, context: Context): Keep | undefined {
  const { known } = context
  if (!authority[row.origin].yieldsToNewerMemory || known === undefined || known.placeholder) return undefined
  if (row.modifiedTime > known.modifiedTime) return undefined
  const same =
    row.modifiedTime === known.modifiedTime &&
    row.isDirectory === known.isDirectory &&
    row.isSymlink === known.isSymlink &&
    (row.isDirectory || row.size === known.size)
  if (same) return keep('same')
  const later = scannedAfter(context, known.lastUpdatedAt)
  if (later && context.scanPurpose !== 'routine') return undefined
  return keep('memory_newer', later ? 'path' : 'no')
}

/** V6.6 (3): memory has a newer directory than the audit saw, so a file that only the audit saw has been deleted since. */
function newerParentRule(row: RowEvent, context: Context): Keep | undefined {
  const { known, parent } = context
  if (!authority[row.origin].yieldsToNewerParent || known !== undefined || parent === undefined) return undefined
  if (row.parentMtime === undefined || parent.modifiedTime <= row.parentMtime) return undefined
  return keep('parent_newer', scannedAfter(context, parent.lastUpdatedAt) ? 'parent' : 'no')
}

function accept(row: RowEvent, context: Context): Take {
  const may = authority[row.origin]
  const suspect = suspicion(row, context)
  return {
    take: true,
    reincarnates: context.tombstone !== undefined,
    suspect: suspect.mark,
    suspectSeconds: suspect.seconds,
    blindSpot: may.blindSpot === 'clears' ? 'clear' : may.blindSpot === 'marks' ? 'mark' : 'leave',
    knownByAgent: may.knownByAgent,
    touches: may.setsLastUpdated,
    samplesClock: may.samplesClock && !row.isDirectory,
  }
}

// A file just below the hot threshold is still checked once more.
const suspectMinSeconds = 1

/** V6.4: a partial write marks a suspect, an atomic one clears it; a scan marks files that are still hot. */
function suspicion(
  row: RowEvent,
  { watermark, hotSeconds }: Context,
): { readonly mark: Take['suspect']; readonly seconds: number } {
  if (row.isDirectory || row.isSymlink) return { mark: 'leave', seconds: 0 }
  if (authority[row.origin].marksSuspect === 'partial write') {
    return row.atomic ? { mark: 'clear', seconds: 0 } : { mark: 'mark', seconds: hotSeconds }
  }
  const age = watermark - row.modifiedTime
  if (age >= hotSeconds) return { mark: 'leave', seconds: 0 }
  return { mark: 'mark', seconds: Math.max(suspectMinSeconds, Math.min(hotSeconds - age, hotSeconds)) }
}

/** Whether an audit deletes an entry that it did not see in a directory that it listed in full (V6.6). */
export function missingIsDeleted(entry: {
  readonly lastUpdatedAt: number
  readonly tombstoned: boolean
  readonly auditBeganAt: number
}): boolean {
  return !entry.tombstoned && entry.lastUpdatedAt < entry.auditBeganAt
}
