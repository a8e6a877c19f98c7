/**
 * Takes over what a sandboxed agent committed in its worktree. In the sandbox the repository is read-only, so new objects are in a folder of the
 * worktree's part of the repository. They are copied as a pack, which git checks object by object, before any command needs them.
 */
import { lstatSync, readdirSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Repository } from './repository.js'

/** In the worktree's part of the repository. */
export const newObjects = (gitDir: string) => join(gitDir, 'bellwether-objects')

// $1: the folder of the new objects. It may be repeated: git skips objects that the repository has already.
const copyObjects = `set -e
ids=$(GIT_OBJECT_DIRECTORY="$1" git cat-file --batch-all-objects --batch-check='%(objectname)')
[ -n "$ids" ] || exit 0
echo "$ids" | GIT_ALTERNATE_OBJECT_DIRECTORIES="$1" git pack-objects -q --stdout | git index-pack --stdin > /dev/null`

/** `gitDir`: the worktree's part of the repository. */
export async function adoptObjects({ git }: Repository, gitDir: string): Promise<void> {
  removePlanted(gitDir)
  const objects = newObjects(gitDir)
  if (lstatSync(objects, { throwIfNoEntry: false })?.isDirectory() !== true) return
  // It names a folder of the sandbox, or whatever the agent wrote into it.
  await rm(join(objects, 'info'), { recursive: true, force: true })
  if (readdirSync(objects).length > 0) await git([objects], { script: copyObjects, writes: true })
  await rm(objects, { recursive: true, force: true })
}

/**
 * Removes what git does not make in its own folder: symbolic links, through which it would write, and pipes, sockets and devices, on which
 * this process would wait.
 */
export function removePlanted(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) {
      if (entry.name !== 'modules') removePlanted(path)
    } else if (!entry.isFile()) rmSync(path)
  }
}
