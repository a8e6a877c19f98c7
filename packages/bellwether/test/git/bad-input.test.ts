/** Tasks whose worktree cannot be made: the command line says why and what to do, and the task is kept. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { newRepository, repositoryAt, temporaryFolder, type TestRepository } from '../support/git-repository.js'
import { inProcess } from '../cli/running-up.js'

const command = `echo x > f.txt; echo '{"files": ["f.txt"]}'`

interface Case {
  readonly what: string
  readonly make: () => Promise<TestRepository>
  /** Options of `task add`. */
  readonly options?: readonly string[]
  readonly says: RegExp
}

const refused: readonly Case[] = [
  {
    what: 'a base branch that is gone',
    make: () => newRepository(),
    options: ['--base', 'gone'],
    says: /has no branch "gone"\. Create the branch, or name another one with bellwether task edit T-1 --base BRANCH\. \[/,
  },
  {
    what: 'a detached HEAD',
    async make() {
      const repository = await newRepository()
      repository.git('checkout', '-q', '--detach')
      return repository
    },
    says: /no branch is checked out in .* \(HEAD is detached\)\. Check out a branch, or name one/,
  },
  {
    what: 'no repository, by a policy that refuses',
    async make() {
      const folder = repositoryAt(await temporaryFolder())
      mkdirSync(join(folder.path, 'config'))
      writeFileSync(join(folder.path, 'config/workspace-policy.json'), '{"withoutGit": "refuse"}')
      return folder
    },
    says: /is not in a git repository with files\. Create a commit there, or set "withoutGit" to "project"/,
  },
]

it.each(refused)('$what blocks the task with the reason and the next action', async ({ make, options = [], says }) => {
  const { path } = await make()
  const at = ['--root', path]
  await inProcess(['task', 'add', 'one', '--workspace', 'worktree', ...options, ...at])
  expect((await inProcess(['task', 'dispatch', 'T-1', '--command', command, ...at])).err).toMatch(says)
  const { out } = await inProcess(['task', 'show', 'T-1', '--json', ...at])
  expect(JSON.parse(out)).toMatchObject({ status: 'blocked', fields: { reasonCode: 'workspace_failed' } })
})

it('a repository without commits runs the task in the project folder, and the task says so', async () => {
  const { path } = await newRepository({})
  const at = ['--root', path]
  await inProcess(['task', 'add', 'one', '--workspace', 'worktree', ...at])
  await inProcess(['task', 'dispatch', 'T-1', '--command', command, ...at])
  const { out } = await inProcess(['task', 'show', 'T-1', ...at])
  expect(out).toMatch(/status +done/)
  expect(out).toMatch(/workspace +the project folder: the git repository .* has no commits/)
})

it('a base that is not the name of a branch adds no task', async () => {
  const { path } = await newRepository()
  const at = ['--root', path]
  const { err } = await inProcess(['task', 'add', 'one', '--workspace', 'worktree', '--base', 'a..b', ...at])
  expect(err).toContain('base: must be the name of a branch')
  expect((await inProcess(['task', 'list', ...at])).out).not.toContain('one')
})
