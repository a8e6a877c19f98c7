/**
 * Resolves the working directory of a command and checks that it is inside its root after all symbolic links are followed. It
 * does not restrict what the running command does; that needs a sandbox of the operating system.
 */
import { realpathSync, statSync } from 'node:fs'
import { isAbsolute, relative, resolve, sep } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'

/** Throws if the folder is missing, is not a folder, or is outside the root. */
export function folderInside(root: string, cwd: string): string {
  const real = realpathSync(root)
  let folder: string
  try {
    folder = realpathSync(resolve(real, cwd))
  } catch (error) {
    throw new InvalidInput(`Cannot use the working directory ${JSON.stringify(cwd)}`, {
      code: 'cwd_missing',
      cause: error,
      hint: `The path is relative to ${real}.`,
    })
  }
  const way = relative(real, folder)
  if (isAbsolute(way) || way === '..' || way.startsWith(`..${sep}`)) {
    throw new InvalidInput(`The working directory ${JSON.stringify(cwd)} is outside ${real}`, {
      code: 'cwd_outside_root',
      hint: 'Symbolic links are followed first. Choose a folder inside the project.',
    })
  }
  if (!statSync(folder).isDirectory()) {
    throw new InvalidInput(`The working directory ${JSON.stringify(cwd)} is not a folder`, { code: 'cwd_missing' })
  }
  return folder
}
