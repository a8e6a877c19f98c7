/**
 * The folder a command works in: inside its root, with every symbolic link followed before that is judged. What the command
 * does once it runs is not fenced by this; a sandbox of the operating system would have to do that.
 */
import { realpathSync, statSync } from 'node:fs'
import { isAbsolute, relative, resolve, sep } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'

/** Throws when the folder is not there, is no folder, or lies outside the root. */
export function folderInside(root: string, cwd: string): string {
  const real = realpathSync(root)
  let folder: string
  try {
    folder = realpathSync(resolve(real, cwd))
  } catch (error) {
    throw new InvalidInput(`the working directory ${JSON.stringify(cwd)} cannot be used`, {
      code: 'cwd_missing',
      cause: error,
      hint: `it is looked for inside ${real}`,
    })
  }
  const way = relative(real, folder)
  if (isAbsolute(way) || way === '..' || way.startsWith(`..${sep}`)) {
    throw new InvalidInput(`the working directory ${JSON.stringify(cwd)} leads outside ${real}`, {
      code: 'cwd_outside_root',
      hint: 'symbolic links are followed first; name a folder inside the project',
    })
  }
  if (!statSync(folder).isDirectory()) {
    throw new InvalidInput(`the working directory ${JSON.stringify(cwd)} is no folder`, { code: 'cwd_missing' })
  }
  return folder
}
