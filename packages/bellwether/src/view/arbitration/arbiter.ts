/**
 * Arbitration: what becomes of one row, given what memory holds, the file's tombstone and the clocks. Pure: the decision
 * is a value, and `source.ts` is the only one who carries it out. The rules come in the order of their names below; the
 * first one that objects keeps memory as it is. Which source of evidence each rule binds stands in `authority.ts`.
 */
import type { MessageSource } from '@bellwether/protocol'
import { authority } from './authority.js'

/** What memory knows of the path. */
export interface Known {
  readonly isDirectory: boolean
  readonly size: number
  readonly modifiedTime: number
  /** Server ms of the last realtime row; 0: never. */
  readonly lastUpdatedAt: number
  readonly agent: string | undefined
  /** Made only because a child came first. */
  readonly placeholder: boolean
}

/** A remembered deletion: of the path itself, or of a directory above it that is not there any more. */
export interface Tombstone {
  /** Seconds on the clock of the files: a file with a newer mtime is a new file. */
  readonly logical: number
  /** Server ms. */
  readonly physicalAt: number
  /** When the deleting sensor saw it, in server ms by its own clock's measured offset. */
  readonly seenAt: number
  readonly agent: string
}

export interface RowEvent {
  readonly from: MessageSource
  readonly isDirectory: boolean
  readonly size: number
  readonly modifiedTime: number
  readonly atomic: boolean
  readonly parentMtime: number | undefined
  readonly agent: string
  /** When the sensor saw it, in server ms by its clock's measured offset. */
  readonly seenAt: number
}

export interface Context {
  readonly known: Known | undefined
  readonly tombstone: Tombstone | undefined
  /** The directory above, if memory has it as more than a placeholder. */
  readonly parent: { readonly modifiedTime: number; readonly lastUpdatedAt: number } | undefined
  /** Seconds on the clock of the files. */
  readonly watermark: number
  readonly hotSeconds: number
  /**
   * When the look at the disk began that this row comes from (server ms), if the view knows: an audit's start, or the
   * moment a scan was asked for. Whatever memory learned before is older evidence.
   */
  readonly lookBeganAt: number | undefined
  /** `asked`: a scan that a reader asked for. `settling`: one that the view asked for because evidence disagreed. */
  readonly look: 'routine' | 'asked' | 'settling'
}

export type KeepReason = 'tombstone' | 'memory_newer' | 'same' | 'parent_newer' | 'late_news'

/** Memory stays. `disputed`: what was looked at later says otherwise, so that a settling scan should decide. */
export interface Keep {
  readonly take: false
  readonly reason: KeepReason
  readonly disputed: 'no' | 'path' | 'parent'
}

/** The row becomes memory, with these marks. */
export interface Take {
  readonly take: true
  readonly reincarnates: boolean
  readonly suspect: 'mark' | 'clear' | 'leave'
  /** How long a mark lasts before it is judged. */
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
    lateNewsRule(row, context) ??
    newerMemoryRule(row, context) ??
    newerParentRule(row, context) ??
    accept(row, context)
  )
}

/** Whether the look began after memory last heard of it from a cause: then the look is the newer evidence. */
const lookedAfter = (context: Context, at: number) => context.lookBeganAt !== undefined && at < context.lookBeganAt

/** V6.3: what was looked at before a deletion does not undo it. A file that is newer than its tombstone is a new file. */
export function tombstoneRule(row: RowEvent, context: Context): Keep | undefined {
  const { tombstone } = context
  if (tombstone === undefined || row.modifiedTime > tombstone.logical) return undefined
  if (authority[row.from].reincarnates === 'always') {
    // The sensor that deleted speaks in order; another one's row is older than the deletion if it was seen before it.
    return row.agent !== tombstone.agent && row.seenAt < tombstone.seenAt ? keep('tombstone') : undefined
  }
  const later = lookedAfter(context, tombstone.physicalAt)
  if (later && context.look === 'settling') return undefined
  return keep('tombstone', later ? 'path' : 'no')
}

/** Two sensors saw two changes and the older one came last. One sensor's own rows are in order, mtimes that go back too. */
export function lateNewsRule(row: RowEvent, { known }: Context): Keep | undefined {
  if (authority[row.from].bowsToNewerMemory || known === undefined || known.agent === row.agent) return undefined
  return row.modifiedTime < known.modifiedTime && row.seenAt < known.lastUpdatedAt ? keep('late_news') : undefined
}

/** V6.6 (2): memory whose mtime is the same or newer wins over a look, unless that look was asked for to find out. */
export function newerMemoryRule(row: RowEvent, context: Context): Keep | undefined {
  const { known } = context
  if (!authority[row.from].bowsToNewerMemory || known === undefined || known.placeholder) return undefined
  const older = row.modifiedTime <= known.modifiedTime
  if (!older) return undefined
  const same =
    row.modifiedTime === known.modifiedTime &&
    row.isDirectory === known.isDirectory &&
    (row.isDirectory || row.size === known.size)
  if (same) return keep('same')
  const later = lookedAfter(context, known.lastUpdatedAt)
  if (later && context.look !== 'routine') return undefined
  return keep('memory_newer', later ? 'path' : 'no')
}

/** V6.6 (3): memory knows the directory newer than the audit does, so a file that only the audit knows is gone again. */
export function newerParentRule(row: RowEvent, context: Context): Keep | undefined {
  const { known, parent } = context
  if (!authority[row.from].bowsToNewerParent || known !== undefined || parent === undefined) return undefined
  if (row.parentMtime === undefined || parent.modifiedTime <= row.parentMtime) return undefined
  return keep('parent_newer', lookedAfter(context, parent.lastUpdatedAt) ? 'parent' : 'no')
}

function accept(row: RowEvent, context: Context): Take {
  const may = authority[row.from]
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

// A hot file that is nearly cold is still looked at once more.
const suspectMinSeconds = 1

/** V6.4: a partial write makes a suspect, an atomic one clears it; looks make suspects of files that are still hot. */
export function suspicion(
  row: RowEvent,
  { watermark, hotSeconds }: Context,
): { readonly mark: Take['suspect']; readonly seconds: number } {
  if (row.isDirectory) return { mark: 'leave', seconds: 0 }
  if (authority[row.from].marksSuspect === 'partial write') {
    return row.atomic ? { mark: 'clear', seconds: 0 } : { mark: 'mark', seconds: hotSeconds }
  }
  const age = watermark - row.modifiedTime
  if (age >= hotSeconds) return { mark: 'leave', seconds: 0 }
  return { mark: 'mark', seconds: Math.max(suspectMinSeconds, Math.min(hotSeconds - age, hotSeconds)) }
}

/** What an audit concludes about an entry that it did not see in a directory that it scanned to the end (V6.6). */
export function missingIsDeleted(entry: {
  readonly lastUpdatedAt: number
  readonly tombstoned: boolean
  readonly auditBeganAt: number
}): boolean {
  return !entry.tombstoned && entry.lastUpdatedAt < entry.auditBeganAt
}
