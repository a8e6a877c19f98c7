/**
 * The folder in which a turn works: the project, or the same folder in the git worktree that the board made for the turn's task. Only a worktree of
 * the project's own repository counts, because a payload may come from any caller.
 */
import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { hasCode } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'

export function workspaceOf(root: string, payload: Readonly<Record<string, unknown>>): string {
  const { worktree } = payload
  if (worktree === undefined || worktree === null) return root
  const refuse = (why: string) =>
    new InvalidInput(`Cannot work in the worktree ${JSON.stringify(worktree)} of this turn: ${why}`, {
      code: 'no_worktree',
      hint: 'A worker must run on the machine of the board, or share its data folder and the repository.',
    })
  if (typeof worktree !== 'string') throw refuse('it is not a path')
  const real = realpathSync(root)
  const top = topOf(real)
  if (top === undefined) throw refuse(`${real} is not in a git repository`)
  let gitDir: string | undefined
  try {
    gitDir = linkedGitDir(worktree)
  } catch (error) {
    throw refuse(hasCode(error, 'ENOENT') ? 'it does not exist here' : String(error))
  }
  // REPOSITORY/worktrees/NAME
  const repository = gitDir === undefined ? undefined : dirname(dirname(gitDir))
  if (repository === undefined || realpathSync(repository) !== commonOf(top))
    throw refuse('it belongs to another repository')
  return join(worktree, relative(top, real))
}

/** The nearest folder above that git manages. */
export function topOf(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    if (statSync(join(at, '.git'), { throwIfNoEntry: false }) !== undefined) return at
    if (dirname(at) === at) return undefined
  }
}

/**
 * The part of the repository that belongs to the worktree; undefined: git does not know the worktree. An agent can change the link to it: only a
 * folder of the repository that points back counts.
 */
export function gitDirOf(common: string, worktree: string): string | undefined {
  const gitDir = isFile(join(worktree, '.git')) ? linkedGitDir(worktree) : undefined
  if (gitDir === undefined || statSync(gitDir, { throwIfNoEntry: false }) === undefined) return undefined
  if (dirname(realpathSync(gitDir)) !== join(realpathSync(common), 'worktrees')) return undefined
  return pointsTo(gitDir, worktree) ? gitDir : undefined
}

/** The folder that the file `.git` of a worktree or submodule names. Undefined: `.git` is a folder, or names nothing. */
export function linkedGitDir(top: string): string | undefined {
  const path = join(top, '.git')
  if (statSync(path).isDirectory()) return undefined
  const target = /^gitdir: (.+)$/m.exec(readFileSync(path, 'utf8'))?.[1]
  return target === undefined ? undefined : resolve(top, target)
}

const isFile = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFile() === true

/** Whether git has an entry for the worktree, also if its folder is gone. */
export function isRegistered(common: string, worktree: string): boolean {
  const folder = join(common, 'worktrees')
  if (statSync(folder, { throwIfNoEntry: false }) === undefined) return false
  return readdirSync(folder).some((name) => pointsTo(join(folder, name), worktree))
}

function pointsTo(gitDir: string, worktree: string): boolean {
  const link = join(gitDir, 'gitdir')
  if (!isFile(link)) return false
  return resolve(gitDir, readFileSync(link, 'utf8').trim()) === join(worktree, '.git')
}

/** The repository that all worktrees of `top` share. */
export function commonOf(top: string): string {
  const path = join(top, '.git')
  if (statSync(path).isDirectory()) return realpathSync(path)
  const gitDir = linkedGitDir(top) ?? top
  try {
    return realpathSync(resolve(gitDir, readFileSync(join(gitDir, 'commondir'), 'utf8').trim()))
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return realpathSync(gitDir) // a submodule
    throw error
  }
}
