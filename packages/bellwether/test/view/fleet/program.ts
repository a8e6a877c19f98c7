/**
 * The program of fleet processes: the build if it is up to date, because a thread from source takes one second to start;
 * otherwise the source, so that no test runs a stale build.
 */
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { program, programOf } from '../../support/process.js'

const packages = fileURLToPath(new URL('../../../..', import.meta.url))
const built = join(packages, 'bellwether/dist/cli/main.js')

/** The compiler does not rewrite unchanged files; it records in this file when it last checked. */
function isBuilt(name: string): boolean {
  const at = statSync(join(packages, name, 'tsconfig.tsbuildinfo'), { throwIfNoEntry: false })?.mtimeMs ?? 0
  return readdirSync(join(packages, name, 'src'), { recursive: true, encoding: 'utf8' }).every(
    (file) => /\.test\.ts$|(?<!\.ts)$/.test(file) || statSync(join(packages, name, 'src', file)).mtimeMs <= at,
  )
}

const isNew = existsSync(built) && ['protocol', 'sensor', 'bellwether'].every(isBuilt)

export const fleetProgram: readonly string[] = isNew ? [built] : program

/** A script beside the tests; it imports the built sensor, too. */
export const fleetScript = (script: string): readonly string[] =>
  isNew ? programOf(script).filter((word) => !word.startsWith('--conditions')) : programOf(script)
