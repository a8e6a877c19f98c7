/**
 * What node runs to be a process of a fleet: as built where the build is as new as the source, since a thread from source
 * takes a second to start; from source otherwise, so that no test ever sees a stale build.
 */
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { program, programOf } from '../../support/process.js'

const packages = fileURLToPath(new URL('../../../..', import.meta.url))
const built = join(packages, 'bellwether/dist/cli/main.js')

/** The compiler leaves alone what would not change, and notes in this file when it looked. */
function isBuilt(name: string): boolean {
  const at = statSync(join(packages, name, 'tsconfig.tsbuildinfo'), { throwIfNoEntry: false })?.mtimeMs ?? 0
  return readdirSync(join(packages, name, 'src'), { recursive: true, encoding: 'utf8' }).every(
    (file) => /\.test\.ts$|(?<!\.ts)$/.test(file) || statSync(join(packages, name, 'src', file)).mtimeMs <= at,
  )
}

const isNew = existsSync(built) && ['protocol', 'sensor', 'bellwether'].every(isBuilt)

export const fleetProgram: readonly string[] = isNew ? [built] : program

/** A script beside the tests; what it imports of the sensor is as built, too. */
export const fleetScript = (script: string): readonly string[] =>
  isNew ? programOf(script).filter((word) => !word.startsWith('--conditions')) : programOf(script)
