/**
 * Finds the git repository of a folder, and calls git in it. The settings that name programs (filters, merge drivers, text
 * conversions) are read before each use and switched off, because an agent can change them.
 */
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { defined, hasCode } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { runGit, type GitAnswer, type GitCall, type Setting } from './git.js'
import { commonOf, linkedGitDir, topOf } from './workspace-folder.js'

export interface Repository {
  /** The folder of the checked-out files. */
  readonly top: string
  /** The repository itself, which all worktrees share. */
  readonly common: string
  /** The path of the folder below `top`; empty, or with a slash at its end. */
  readonly prefix: string
  /** Calls git in `top`, or in `cwd`, with the lock of the repository if `writes`. */
  readonly git: (
    args: readonly string[],
    more?: Partial<Pick<GitCall, 'cwd' | 'answers' | 'script' | 'env' | 'config'>> & { readonly writes?: boolean },
  ) => Promise<GitAnswer>
}

export interface NoRepository {
  /** Why no worktree can be made from the folder. */
  readonly missing: string
}

/** In the repository: held by one git command of Bellwether at a time. */
const lockFile = 'bellwether.lock'
const notFound = 128

export async function findRepository(folder: string, timeoutMs: number): Promise<Repository | NoRepository> {
  const owner = ownerOf(folder)
  const location = await locate(folder, timeoutMs, owner)
  if (location === undefined) return { missing: `${folder} is not in a git repository with files` }
  const { top, common, prefix } = location
  const known = new Map<string, Promise<readonly Setting[]>>()
  /** A worktree and a submodule have settings of their own. */
  const configOf = (cwd: string) => {
    const config = known.get(cwd) ?? programsOff(cwd, timeoutMs, owner)
    known.set(cwd, config)
    return config
  }
  const git: Repository['git'] = async (args, { writes = false, cwd = top, ...more } = {}) =>
    runGit({
      args,
      cwd,
      timeoutMs,
      owner,
      ...(writes ? { lock: resolve(common, lockFile) } : {}),
      ...more,
      config: [...(await configOf(cwd)), ...(more.config ?? [])],
    })
  return { top, common, prefix, git }
}

interface Location {
  readonly top: string
  readonly common: string
  readonly prefix: string
}

/** By folder. A location holds while what git reads to find it is the same: an agent can change it. */
const locations = new Map<string, { readonly sources: string; readonly location: Location }>()
// A process has one or two task roots.
const locationsMax = 100

async function locate(folder: string, timeoutMs: number, owner: GitCall['owner']): Promise<Location | undefined> {
  const sources = sourcesOf(folder)
  const known = locations.get(folder)
  if (sources !== undefined && known?.sources === sources) return known.location
  locations.delete(folder)
  const found = await runGit({
    args: ['rev-parse', '--show-toplevel', '--git-common-dir', '--show-prefix'],
    cwd: folder,
    timeoutMs,
    owner,
    answers: [0, notFound],
  })
  if (found.code === notFound) return undefined
  const [top = '', commonDir = '', prefix = ''] = found.stdout.split('\n')
  const above = topOf(realpathSync(folder))
  if (above !== undefined && realpathSync(top) !== above) throw filesElsewhere(above, top)
  const location = { top, common: resolve(folder, commonDir), prefix }
  if (locations.size >= locationsMax) locations.clear()
  if (sources !== undefined) locations.set(folder, { sources, location })
  return location
}

/** The entry `.git` above the folder and the settings of its repository. Git looks for the files of a checkout in no included file. */
function sourcesOf(folder: string): string | undefined {
  const top = topOf(folder)
  if (top === undefined) return undefined
  const path = join(top, '.git')
  try {
    const { dev, ino } = statSync(path)
    const gitDir = linkedGitDir(top) ?? path
    const common = commonOf(top)
    const settings = [join(common, 'config'), join(gitDir, 'config.worktree')].map(textOf)
    return [top, dev, ino, gitDir, common, ...settings].join('\0')
  } catch {
    return undefined // git says what is wrong with the repository
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return ''
    throw error
  }
}

/** Changes of a task would be merged into files outside the project. */
const filesElsewhere = (folder: string, top: string) =>
  new Terminal(`Cannot use git in ${folder}: the setting "core.worktree" says that its files are in ${top}`, {
    code: 'files_elsewhere',
    hint: 'Run git config --unset core.worktree there, or use the folder that has the files.',
  })

/** The same repository; git is called in the worktree unless a call names another folder. */
export const inside = (repository: Repository, worktree: string): Repository => ({
  ...repository,
  git: (args, more) => repository.git(args, { cwd: worktree, ...more }),
})

export async function hasCommits({ git }: Repository): Promise<boolean> {
  return (await git(['rev-list', '-n', '1', '--branches'])).stdout.trim() !== ''
}

/** Root works as the owner of the repository, so that its files stay the owner's. */
export function ownerOf(folder: string): { readonly uid: number; readonly gid: number } | undefined {
  if (process.geteuid?.() !== 0) return undefined
  const { uid, gid } = statSync(folder)
  return uid === 0 ? undefined : { uid, gid }
}

const noProgram: Readonly<Record<string, string>> = {
  clean: '',
  smudge: '',
  process: '',
  required: 'false',
  driver: 'git merge-file -q %A %O %B',
  textconv: '',
  command: '',
  uploadpack: 'git-upload-pack',
}

/**
 * Overrides for every program that the repository's settings name for filters, merges, diffs and remotes. Throws if settings depend on a
 * condition: it may be true for a later command only.
 */
async function programsOff(cwd: string, timeoutMs: number, owner: GitCall['owner']): Promise<readonly Setting[]> {
  const programs = String.raw`filter\..*\.(clean|smudge|process|required)|merge\..*\.driver|diff\..*\.(textconv|command)|remote\..*\.uploadpack`
  const pattern = String.raw`^(${programs}|includeif\..*)$`
  const args = ['config', '-z', '--name-only', '--get-regexp', pattern]
  const { stdout } = await runGit({ args, cwd, timeoutMs, owner, answers: [0, 1] })
  const keys = new Set(stdout.split('\0').filter((key) => key !== ''))
  if ([...keys].some((key) => key.startsWith('includeif.'))) throw conditionalInclude(cwd)
  // A required filter without a command would refuse its files.
  for (const key of [...keys].filter((one) => one.startsWith('filter.')))
    for (const part of ['clean', 'smudge', 'process', 'required'])
      keys.add(`${key.slice(0, key.lastIndexOf('.'))}.${part}`)
  return [...keys].map((key) => [key, noProgram[key.slice(key.lastIndexOf('.') + 1)] ?? ''])
}

const conditionalInclude = (folder: string) =>
  new Terminal(`Cannot use git in ${folder}: the settings of the repository include other files under a condition`, {
    code: 'conditional_include',
    hint: 'Remove the sections [includeIf …] from the file "config" of the repository, or use [include].',
  })

export const items = (text: string): string[] => text.split('\0').filter((item) => item !== '')

/** The commit of a revision; undefined if there is none. */
export async function commitOf({ git }: Repository, revision: string, cwd?: string): Promise<string | undefined> {
  const found = await git(['rev-parse', '-q', '--verify', `${revision}^{commit}`], {
    answers: [0, 1, notFound],
    ...defined({ cwd }),
  })
  return found.code === 0 ? found.stdout.trim() : undefined
}

export interface Tip {
  readonly commit: string
  readonly committer: string
}

/** The tips of branches, by their full names, in one call. A branch that does not exist is absent. */
export async function tipsOf({ git }: Repository, branches: readonly string[]): Promise<ReadonlyMap<string, Tip>> {
  const format = '--format=%(refname)%09%(objectname)%09%(committeremail:trim)'
  const { stdout } = await git(['for-each-ref', format, ...branches])
  const found = new Map<string, Tip>()
  for (const line of stdout.split('\n')) {
    const [name = '', commit = '', committer = ''] = line.split('\t')
    if (branches.includes(name)) found.set(name, { commit, committer })
  }
  return found
}

/** The commit where two commits parted: one of them if the other contains it. Undefined: their histories have nothing in common. */
export async function forkPoint({ git }: Repository, one: string, other: string): Promise<string | undefined> {
  const found = await git(['merge-base', one, other], { answers: [0, 1, notFound] })
  return found.code === 0 ? found.stdout.trim() : undefined
}

/** Whether `commit` is `other` or one of its ancestors. False if one of them does not exist. */
export async function isIn({ git }: Repository, commit: string, other: string): Promise<boolean> {
  const { code } = await git(['merge-base', '--is-ancestor', commit, other], { answers: [0, 1, notFound] })
  return code === 0
}

export interface CheckedOut {
  readonly path: string
  /** The full name of the branch; undefined if HEAD is detached. */
  readonly branch?: string
}

/** Without those whose folder a person has deleted. */
export async function listWorktrees({ git }: Repository): Promise<readonly CheckedOut[]> {
  const { stdout } = await git(['worktree', 'list', '--porcelain'])
  return stdout.split('\n\n').flatMap((block) => {
    const path = /^worktree (.*)$/m.exec(block)?.[1]
    const branch = /^branch (.*)$/m.exec(block)?.[1]
    return path === undefined || !existsSync(path) ? [] : [{ path, ...defined({ branch }) }]
  })
}

/** Whether a rebase of the branch is in progress there: HEAD is detached, and the branch moves when the rebase ends. */
export function isRebasing(worktree: string, branch: string): boolean {
  const gitDir = linkedGitDir(worktree) ?? join(worktree, '.git')
  return ['rebase-merge', 'rebase-apply'].some((state) => textOf(join(gitDir, state, 'head-name')).trim() === branch)
}
