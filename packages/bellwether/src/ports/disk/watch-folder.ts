/**
 * Calls back after something in a folder may have changed, once for several changes in quick succession, or after each change of one
 * file. It is a hint: the caller reads the folder, and polls as well, because some filesystems report nothing.
 */
import { watch, type FSWatcher } from 'node:fs'

// An editor that saves a file makes several changes within a few milliseconds.
const quietMs = 100

export interface FolderWatch {
  close(): void
}

/**
 * Reports a folder that cannot be watched (missing, or too many watches) to `onTrouble`; the caller then relies on polling.
 * With `file`, only changes of this file in the folder count, and each is reported at once.
 */
export function watchFolder(
  folder: string,
  onChange: () => void,
  onTrouble: (error: unknown) => void,
  file?: string,
): FolderWatch {
  let timer: NodeJS.Timeout | undefined
  let watcher: FSWatcher | undefined
  try {
    watcher = watch(folder, { persistent: false }, (_event, name) => {
      // Some platforms do not report the name.
      if (file !== undefined) return name === file || name === null ? onChange() : undefined
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
