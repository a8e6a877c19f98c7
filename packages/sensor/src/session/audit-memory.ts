/**
 * What the last complete audit learned, so that the next one can leave silent directories unread. In memory only. Always:
 * it is taken over only from an audit whose end the server has taken (one that failed half-way told nobody what is
 * missing); a time so fresh that the directory could change again within the same tick is not trusted; it is bounded.
 *
 * A time is old enough when it lies behind both clocks, or, whatever the clocks say, when it had already been seen a
 * while before the directory was read: the file server's clock has moved on since.
 */
import type { DirectoryResult, Memory } from '../scan/messages.js'

// Directories and hot files together; about 300 MB of names at worst. Beyond it directories are read every time.
const entriesMax = 2_000_000
/** Coarser than the clock of any filesystem in use (FAT: 2 s). */
export const granularitySeconds = 2

interface Entry extends Memory {
  /** When this time was first seen, on the monotonic clock. */
  readonly sinceMs: number
  readonly isTrusted: boolean
}

export class AuditMemory {
  #known = new Map<string, Entry>()

  get size(): number {
    let trusted = 0
    for (const { isTrusted } of this.#known.values()) if (isTrusted) trusted += 1
    return trusted
  }
  get(path: string): Memory | undefined {
    const entry = this.#known.get(path)
    return entry?.isTrusted === true ? entry : undefined
  }
  clear(): void {
    this.#known = new Map()
  }

  /** Collects for the next audit. `serverNow`: seconds on the earlier of the two clocks, when the audit began. */
  learn(serverNow: number, nowMs: number): { note(result: DirectoryResult): void; adopt(): void } {
    const next = new Map<string, Entry>()
    const before = this.#known
    let entries = 0
    return {
      note(result) {
        const { path, mtime, mtimeAfter, hotFiles, subdirectories } = result
        if (result.miss !== undefined || result.denied > 0 || hotFiles === undefined || mtime !== mtimeAfter) return
        if (entries >= entriesMax) return
        entries += 1 + hotFiles.length
        const old = before.get(path)
        const sinceMs = old?.mtime === mtime ? old.sinceMs : nowMs
        const isPast = mtime <= serverNow - granularitySeconds
        const isTrusted = isPast || nowMs - sinceMs >= granularitySeconds * 1_000
        next.set(path, { mtime, subdirectories, hotFiles, sinceMs, isTrusted })
      },
      // Cleared in between (another session, another role): what was learned belongs to the past.
      adopt: () => {
        if (this.#known === before) this.#known = next
      },
    }
  }
}
