/**
 * What a sandboxed program sees of the account's home folder: a new, empty one with the folders of programs, the login and settings of its coding
 * agent, and nothing else. Its sessions lie in a folder per agent, so that a later turn can resume them.
 */
import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { Terminal } from '@bellwether/protocol'
import { handOver, type Account, type Scratch } from '../scratch.js'
import { covers, isWithin, readOnly, realOf, writable, type Mount } from './mounts.js'

/** Paths in the home folder. */
export interface CliHome {
  /** Settings: visible, read-only. */
  readonly read?: readonly string[]
  /** Logins that the program renews: visible and writable. */
  readonly write?: readonly string[]
  /** Files that the program writes all the time: each turn has its own copy. */
  readonly copy?: readonly string[]
  /** Folders with sessions: one of its own per agent, kept between turns. */
  readonly sessions?: readonly string[]
}

// Where version managers and package managers install programs. None of them holds logins or keys.
const programFolders = [
  '.local/bin',
  '.local/lib',
  ...['claude', 'fnm', 'mise', 'pipx', 'pnpm', 'uv'].map((name) => `.local/share/${name}`),
  ...[
    '.asdf',
    '.bun',
    '.deno',
    '.nvm',
    '.npm-global',
    '.opencode/bin',
    '.pyenv',
    '.rbenv',
    '.rustup',
    '.sdkman',
    '.volta',
  ],
  ...['.cargo/bin', 'go/bin', 'bin'],
]

export interface HomeOptions {
  /** The path of the home folder, in the sandbox and outside. */
  readonly home: string
  readonly scratch: Scratch
  /** Of the command. */
  readonly path: string
  /** The folder with one folder of sessions per agent. */
  readonly sessions: string
  readonly agentId: string
  readonly cli: CliHome
  readonly account?: Account | undefined
}

export function homeMounts({ home, scratch, path, sessions, agentId, cli, account }: HomeOptions): Mount[] {
  const inHome = (name: string) => join(home, name)
  const mounts: Mount[] = [writable(scratch.home, home)]
  for (const name of programFolders) if (existsSync(inHome(name))) mounts.push(readOnly(inHome(name)))
  mounts.push(...searchPath(path, home))
  if (cli.sessions !== undefined) for (const folder of [sessions, join(sessions, agentId)]) passage(folder)
  for (const name of cli.sessions ?? []) {
    const folder = ownFolder(join(sessions, agentId, name.replaceAll('/', '-')))
    if (account !== undefined) lchownSync(folder, account.uid, account.gid)
    mounts.push(writable(folder, inHome(name)))
  }
  for (const name of cli.read ?? []) if (existsSync(inHome(name))) mounts.push(readOnly(inHome(name)))
  for (const name of cli.write ?? []) if (existsSync(inHome(name))) mounts.push(writable(inHome(name)))
  return mounts
}

/**
 * Fills the new home folder of a turn and hands it over to the account of its programs. Call it before the first of them starts: later, a
 * link in the folder could lead what this process writes out of the sandbox.
 */
export function fillHome({ home, scratch, cli, account }: HomeOptions, gitSettings: string): void {
  writeFileSync(join(scratch.home, '.gitconfig'), gitSettings, { flag: 'wx' })
  for (const name of cli.copy ?? []) {
    if (!existsSync(join(home, name))) continue
    const copy = join(scratch.home, name)
    mkdirSync(dirname(copy), { recursive: true, mode: 0o700 })
    copyFileSync(join(home, name), copy, constants.COPYFILE_EXCL)
  }
  if (account !== undefined) handOver(scratch.home, account)
}

/** A folder that other accounts can pass through, but not change: so what it contains cannot be replaced by links. */
function passage(folder: string): void {
  ownFolder(folder)
  const [uid, gid] = [process.geteuid?.(), process.getegid?.()]
  if (uid === 0 && gid !== undefined) lchownSync(folder, uid, gid)
  chmodSync(folder, 0o711)
}

function ownFolder(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (lstatSync(folder).isDirectory()) return folder
  throw new Terminal(`${folder} is a link, not a folder`, {
    code: 'unsafe_folder',
    hint: 'a program may have planted it: remove it',
  })
}

/** The folders of PATH that no system folder contains, and where their links lead. */
function searchPath(path: string, home: string): Mount[] {
  return path.split(':').flatMap((folder) => {
    if (
      !folder.startsWith('/') ||
      ['/usr', '/bin', '/sbin', '/opt', '/nix', '/snap'].some((one) => isWithin(one, folder))
    )
      return []
    // A search path that contains the home folder itself would show all of it.
    if (isWithin(folder, home) || !existsSync(folder)) return []
    return [readOnly(folder)]
  })
}

/** What the programs themselves need: their files, also if a link leads to another place. */
export function programMounts(programs: readonly string[], path: string, shown: readonly Mount[]): Mount[] {
  return programs.flatMap((program): Mount[] => {
    const candidates = program.includes('/') ? [program] : path.split(':').map((folder) => join(folder, program))
    const found = candidates.find((candidate) => existsSync(candidate))
    const real = found === undefined ? undefined : realOf(found)
    if (found === undefined || real === undefined || !found.startsWith('/')) return []
    // A Node program lies in a package: PREFIX/lib/node_modules/NAME/cli.js.
    const packages = real.indexOf('/node_modules/')
    const folder = packages === -1 ? real : real.slice(0, packages + '/node_modules'.length)
    return [
      ...(covers(shown, real) ? [] : [readOnly(folder)]),
      ...(found === real || covers(shown, found) ? [] : [{ kind: 'link', to: found, target: real } as const]),
    ]
  })
}

const sessionMaxAgeMs = 30 * 86_400_000
const depthMax = 12

/** Removes files of sessions that no turn has written to for 30 days. */
export function sweepSessions(folder: string, nowMs: number, depth = 0): void {
  if (!existsSync(folder) || depth > depthMax) return
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) sweepSessions(path, nowMs, depth + 1)
    else if (nowMs - (lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? nowMs) > sessionMaxAgeMs)
      rmSync(path, { force: true })
  }
}
