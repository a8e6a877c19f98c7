/** What `up` keeps out of the view of its folder: what the owner said, and what the house itself writes. Pure. */
import { isAbsolute, relative } from 'node:path'
import { adminKeyFile, databaseFolder, lockFile, sensorKeyFile, upFile } from './places.js'

/** `globs`: separated by commas. The data folder is left out wherever it lies within the project folder, or is it. */
export function excludedOf(folder: string, dataDir: string, globs: string): string[] {
  const inside = relative(folder, dataDir)
  const theirs = globs.split(',').filter((glob) => glob.trim() !== '')
  if (inside === '')
    return [...theirs, ...[databaseFolder, adminKeyFile, sensorKeyFile, upFile, lockFile].map((name) => `/${name}`)]
  const isOutside = inside === '..' || inside.startsWith('../') || isAbsolute(inside)
  return isOutside ? theirs : [...theirs, `/${inside}`]
}
