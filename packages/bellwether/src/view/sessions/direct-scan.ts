/**
 * The rows of an on-demand scan whose pipe has failed (V5.7): the reader gets them as the sensor sent them. They are not
 * arbitrated and do not become part of the view, so the next scan or audit reports them again.
 */
import { InvalidInput, type FileRow } from '@bellwether/protocol'
import { rowProblem, type CheckedEvent } from '../arbitration/row-checks.js'
import { flag, none, Tree } from '../tree/tree.js'

// About 20 MB. A reader of a larger directory waits until the pipe works again.
const entriesMax = 200_000

export class DirectScan {
  readonly tree: Tree

  constructor(id: string) {
    this.tree = new Tree({ id, entryMax: entriesMax })
  }

  /** Adds the rows of one event; returns how many were valid. Throws Terminal `view_full` above the limit. */
  add({ type, rows }: CheckedEvent, agent: string): number {
    let valid = 0
    for (const value of type === 'delete' ? [] : rows) {
      if (rowProblem(value) !== undefined) continue
      try {
        this.#put(value as FileRow, agent)
        valid += 1
      } catch (error) {
        if (!(error instanceof InvalidInput)) throw error
      }
    }
    return valid
  }

  #put(row: FileRow, agent: string): void {
    const { tree } = this
    const isDirectory = row.is_directory === true
    if (row.unreadable === true || row.scan_complete === true) {
      const node = tree.find(row.path)
      if (row.unreadable === true && node !== none) tree.setFlags(node, flag.unreadable, 0)
      return
    }
    tree.put(row.path, {
      isDirectory,
      size: isDirectory ? 0 : (row.size ?? 0),
      modifiedTime: row.modified_time ?? 0,
      createdTime: row.created_time ?? undefined,
      agent,
      set: flag.knownByAgent | (!isDirectory && row.is_symlink === true ? flag.symlink : 0),
    })
  }
}
