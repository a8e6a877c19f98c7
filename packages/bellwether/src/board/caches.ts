/**
 * The state files that other programs read: state/recovery.state.json and state/budget.state.json. Always: made from the log
 * alone and replaced whole; deleting one costs nothing. A cache that cannot be written is reported and stops nobody.
 */
import { join } from 'node:path'
import type { Disk } from '../ports/disk/disk.js'
import type { Ids } from '../ports/ids.js'
import type { Log } from '../ports/log.js'
import { budgetCache, budgetCacheFile } from './policies/budget.js'
import { recoveryCache, recoveryCacheFile } from './policies/recovery.js'
import type { Board, BoardState } from './task.js'

export interface CachePorts {
  readonly disk: Pick<Disk, 'read' | 'writeDraft' | 'replace' | 'remove'>
  readonly ids: Ids
  readonly log: Log
}

// A file larger than this was not written by us; it is simply replaced.
const readMaxBytes = 256 * 2 ** 20

/** Answers which files were written. */
export async function writeCaches(board: Pick<Board, 'root' | 'state'>, ports: CachePorts): Promise<readonly string[]> {
  const written: string[] = []
  const files: readonly [string, (state: BoardState) => unknown][] = [
    [recoveryCacheFile, recoveryCache],
    [budgetCacheFile, budgetCache],
  ]
  for (const [file, make] of files) {
    const path = join(board.root, file)
    const draft = `${path}.${ports.ids.next()}.draft`
    try {
      const text = `${JSON.stringify(make(board.state), undefined, 2)}\n`
      const there = await ports.disk.read(path, readMaxBytes)
      if (there.found === 'bytes' && there.bytes.equals(Buffer.from(text))) continue
      await ports.disk.writeDraft(draft, [text])
      await ports.disk.replace(path, draft)
      written.push(file)
    } catch (error) {
      ports.log.warn({ err: error, file }, 'a cache could not be written; the log has what it would have said')
      await ports.disk
        .remove(draft)
        .catch((left: unknown) => ports.log.warn({ err: left, draft }, 'a draft is left behind'))
    }
  }
  return written
}
