/**
 * Tells that something in a folder may have changed: one call for many changes that come together. Only a hint, like a bell:
 * whoever listens looks for itself, and also from time to time without being told, because some filesystems tell nothing.
 */
import { watch, type FSWatcher } from 'node:fs'

// An editor that saves makes several changes within a few milliseconds; a person waits for none of this.
const quietMs = 100

export interface FolderWatch {
  close(): void
}

/** A folder that cannot be watched (none there, or too many watches) is left to whoever polls. */
export function watchFolder(folder: string, onChange: () => void, onTrouble: (error: unknown) => void): FolderWatch {
  let timer: NodeJS.Timeout | undefined
  let watcher: FSWatcher | undefined
  try {
    watcher = watch(folder, { persistent: false }, () => {
      clearTimeout(timer)
      timer = setTimeout(onChange, quietMs)
      timer.unref()
    })
    watcher.on('error', onTrouble)
  } catch (error) {
    onTrouble(error)
  }
  return {
    close() {
      clearTimeout(timer)
      watcher?.close()
    },
  }
}
