/**
 * The demo's folder: the project that a user would have, the run-time files of `up` beside it, and a lock that admits one demo
 * at a time.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { lstat, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'

export interface DemoFolder {
  /** Settings, agents, tools, policies and tasks: the working folder of `up`. */
  readonly project: string
  /** The database and the keys: `up --data`. */
  readonly dataDir: string
  readonly logFile: string
  unlock(): Promise<void>
}

export async function openFolder(folder: string): Promise<DemoFolder> {
  const project = join(folder, 'project')
  await mkdir(project, { recursive: true }).catch((error: unknown) => {
    throw new InvalidInput(`Cannot create the folder ${folder}: ${errorMessage(error)}`, {
      code: 'cannot_write',
      cause: error,
      hint: 'name a folder that you may write to with --data DIR',
    })
  })
  const unlock = await lockFile(join(folder, 'lock'))
  return { project, dataDir: join(folder, 'run'), logFile: join(folder, 'server.log'), unlock }
}

/** Writes the project's files and removes the output of an earlier run, so that every claimed file is of this run. */
export async function writeProject(project: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const output of ['pages', 'columns']) await rm(join(project, output), { recursive: true, force: true })
  for (const [path, text] of Object.entries(files)) {
    const file = join(project, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, text)
  }
}

/**
 * A folder in /tmp for a demo whose own folder the database's account cannot reach. It is the same folder at every start. Files
 * of a project are executed, so it must belong to this account, and no other account may write to it.
 */
export async function folderInTmp(folder: string): Promise<string> {
  const hash = createHash('sha256').update(folder).digest('hex').slice(0, 12)
  const inTmp = join(tmpdir(), `bellwether-demo-${hash}`)
  await mkdir(inTmp, { mode: 0o755 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const found = await lstat(inTmp)
  if (found.isDirectory() && found.uid === process.getuid?.() && (found.mode & othersWrite) === 0) return inTmp
  throw new Terminal(`${inTmp} exists and belongs to another account`, {
    code: 'folder_not_ours',
    hint: 'name another folder with --data DIR',
  })
}

const othersWrite = 0o022
const lockedElsewhere = 9

/** The kernel's lock, in a child that exits with this process: nothing is left to clean up after a crash. */
async function lockFile(path: string): Promise<() => Promise<void>> {
  const args = ['-n', '-E', String(lockedElsewhere), path, 'sh', '-c', 'echo locked; exec cat > /dev/null']
  const child = spawn('flock', args, { stdio: ['pipe', 'pipe', 'inherit'], detached: true })
  child.stdin.on('error', () => undefined) // EPIPE after its exit; the exit event reports it
  const exited = once(child, 'exit')
  const result = await Promise.race([
    once(child.stdout, 'data').then(() => 'locked' as const),
    exited.then(([code]) => code as number | null),
  ]).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    throw new Terminal('The program "flock" is missing', { code: 'flock_missing', hint: 'install util-linux' })
  })
  if (result === 'locked')
    return async () => {
      child.stdin.end()
      await exited
    }
  throw new Terminal(
    `Cannot lock ${path}: ${result === lockedElsewhere ? 'another demo uses it' : `flock exited with ${result}`}`,
    {
      code: result === lockedElsewhere ? 'folder_in_use' : 'lock_failed',
      hint: 'wait for the other demo, or name another folder with --data DIR',
    },
  )
}
