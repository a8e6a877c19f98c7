/**
 * Remembers the directories of the last complete audit, so that the next one can skip unchanged directories. Only an audit
 * whose end the server accepted is adopted. An mtime so recent that the directory could change again within the same clock
 * tick is not trusted: it must be older than both clocks, or have been seen some time before the directory was read.
 */
import { isListedInFull } from '../disk/disk.js'
import type { DirectoryResult, KnownDirectory } from '../scan/messages.js'

// Directories and hot files together; at most about 300 MB. Further directories are read by every audit.
const entriesMax = 2_000_000
/** At least the time resolution of every filesystem in use (FAT: 2 s). */
const granularitySeconds = 2

interface Entry extends KnownDirectory {
  /** When this mtime was first seen, in monotonic ms. */
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
  get(path: string): KnownDirectory | undefined {
    const entry = this.#known.get(path)
    return entry?.isTrusted === true ? entry : undefined
  }
  clear(): void {
    this.#known = new Map()
  }

  /** Collects directories for the next audit. `serverNow`: the start of the audit in seconds, on the earlier of the two clocks. */
  learn(serverNow: number, nowMs: number): { note(result: DirectoryResult): void; adopt(): void } {
    const next = new Map<string, Entry>()
    const before = this.#known
    let entries = 0
    return {
      note(result) {
        const { path, mtime, hotFiles, subdirectories } = result
        if (result.miss !== undefined || hotFiles === undefined || !isListedInFull(result)) return
        if (entries >= entriesMax) return
        entries += 1 + hotFiles.length
        const old = before.get(path)
        const sinceMs = old?.mtime === mtime ? old.sinceMs : nowMs
        const isPast = mtime <= serverNow - granularitySeconds
        const isTrusted = isPast || nowMs - sinceMs >= granularitySeconds * 1_000
        next.set(path, { mtime, subdirectories, hotFiles, sinceMs, isTrusted })
      },
      // If it was cleared in between (another session or role), the collected directories are obsolete.
      adopt: () => {
        if (this.#known === before) this.#known = next
      },
    }
  }
}
