/** Lists the globs that `up` excludes from the view of its folder: the owner's, and the files that it writes itself. Pure. */
import { isAbsolute, join, relative, resolve } from 'node:path'
import { adminKeyFile, databaseFolder, lockFile, sensorKeyFile, upFile } from '../paths.js'

export interface ViewExcludesOptions {
  readonly folder: string
  /** Excluded if it lies inside the project folder, or is the project folder. */
  readonly dataDir: string
  /** The task root, whose log, locks and snapshots in `state/` change with every task. */
  readonly boardRoot: string
  /** The owner's globs, separated by commas. */
  readonly globs: string
}

export function viewExcludes({ folder, dataDir, boardRoot, globs }: ViewExcludesOptions): string[] {
  const ownerGlobs = globs.split(',').filter((glob) => glob.trim() !== '')
  const state = within(folder, join(resolve(folder, boardRoot), 'state'))
  const data = within(folder, dataDir)
  const own =
    data === '' ? [databaseFolder, adminKeyFile, sensorKeyFile, upFile, lockFile] : data === undefined ? [] : [data]
  return [...ownerGlobs, ...[...own, ...(state === undefined ? [] : [state])].map((name) => `/${name}`)]
}

/** The path relative to the folder; undefined if it lies outside. */
function within(folder: string, path: string): string | undefined {
  const inside = relative(folder, path)
  return inside === '..' || inside.startsWith('../') || isAbsolute(inside) ? undefined : inside
}
