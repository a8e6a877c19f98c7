/** What `up` keeps out of the view of its folder: what the owner said, and what the house itself writes. Pure. */
import { isAbsolute, join, relative, resolve } from 'node:path'
import { adminKeyFile, databaseFolder, lockFile, sensorKeyFile, upFile } from './paths.js'

export interface Excluding {
  readonly folder: string
  /** Left out wherever it lies within the project folder, or is it. */
  readonly dataDir: string
  /** The board's root: its log, locks and snapshots lie in `state/` there, and change with every task. */
  readonly boardRoot: string
  /** The owner's, separated by commas. */
  readonly globs: string
}

export function excludedOf({ folder, dataDir, boardRoot, globs }: Excluding): string[] {
  const theirs = globs.split(',').filter((glob) => glob.trim() !== '')
  const state = within(folder, join(resolve(folder, boardRoot), 'state'))
  const data = within(folder, dataDir)
  const own =
    data === '' ? [databaseFolder, adminKeyFile, sensorKeyFile, upFile, lockFile] : data === undefined ? [] : [data]
  return [...theirs, ...[...own, ...(state === undefined ? [] : [state])].map((name) => `/${name}`)]
}

/** The way from a folder to a path in it, or nothing where the path lies outside. */
function within(folder: string, path: string): string | undefined {
  const inside = relative(folder, path)
  return inside === '..' || inside.startsWith('../') || isAbsolute(inside) ? undefined : inside
}
