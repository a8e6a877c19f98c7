/** Programs that an agent names in the configuration of a repository, or of one inside its worktree: git of the board starts none of them. */
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { gitHistory } from '../../src/ports/git.js'
import { newRepository, repositoryAt, temporaryFolder, type TestRepository } from '../support/git-repository.js'
import { committed, merged, opened, task, worktreesOf } from './task-worktrees.js'

/** A script that leaves a mark, and passes its input on as a filter does. */
async function evil() {
  const folder = await temporaryFolder()
  const [script, mark] = [join(folder, 'evil'), join(folder, 'ran')]
  writeFileSync(script, `#!/bin/sh\necho "$@" >> '${mark}'\ncase "$1" in filter) cat ;; esac\n`)
  chmodSync(script, 0o755)
  return { script, ran: () => existsSync(mark) }
}

/** A commit with a signature, which git gives to gpg.program if it is to show or verify signatures. */
async function signedCommit(repository: TestRepository): Promise<string> {
  const signature = 'gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----'
  const who = 'x <x@example.org> 1 +0000'
  const [tree, parent] = ['HEAD^{tree}', 'HEAD'].map((name) => repository.git('rev-parse', name))
  const file = join(await temporaryFolder(), 'signed')
  writeFileSync(file, `tree ${tree}\nparent ${parent}\nauthor ${who}\ncommitter ${who}\n${signature}\n\nsigned\n`)
  return repository.git('hash-object', '-t', 'commit', '-w', file)
}

describe('git of the board', () => {
  it('starts no filter of a repository that the agent made inside its worktree, and records its commits', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    const inner = join(root, 'inner')
    mkdirSync(inner)
    const nested = repositoryAt(inner)
    nested.git('init', '-q')
    nested.commit('first', { 'f.txt': 'one\n' })
    await committed(worktrees)
    const { script, ran } = await evil()
    nested.git('config', 'filter.inner.clean', `${script} filter`)
    // The name of a submodule may ask git to look into it.
    writeFileSync(join(root, '.gitmodules'), '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n')
    writeFileSync(join(inner, '.gitattributes'), '* filter=inner\n')
    const second = nested.git('commit-tree', '-m', 'second', '-p', 'HEAD', 'HEAD^{tree}')
    nested.git('update-ref', 'HEAD', second)
    writeFileSync(join(inner, 'f.txt'), 'two\n')
    const { commit } = await committed(worktrees)
    expect(repository.git('rev-parse', `${commit}:inner`)).toBe(second)
    expect(await merged(worktrees)).toBe('published')
    await worktrees.close(task('T-1'), { merged: [], isFinal: true })
    expect(ran()).toBe(false)
  })

  it('records that the agent deleted a submodule, or replaced it by a file', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    for (const name of ['gone', 'file']) {
      mkdirSync(join(root, name))
      repositoryAt(join(root, name)).git('init', '-q')
      repositoryAt(join(root, name)).commit('first', { 'f.txt': 'one\n' })
    }
    await committed(worktrees)
    for (const name of ['gone', 'file']) rmSync(join(root, name), { recursive: true })
    writeFileSync(join(root, 'file'), 'text')
    const { commit } = await committed(worktrees)
    expect(repository.git('ls-tree', '--name-only', commit).split('\n')).toEqual(['a.txt', 'file'])
    expect(repository.git('cat-file', '-t', `${commit}:file`)).toBe('blob')
  })

  it('starts no filter of a submodule in the worktree, nor a program of its stored copy', async () => {
    const library = await newRepository({ 'lib.txt': 'lib', '.gitattributes': '* filter=sub\n' })
    const repository = await newRepository()
    repository.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', library.path, 'lib')
    repository.commit('add the submodule')
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    const { script, ran } = await evil()
    repositoryAt(join(root, 'lib')).git('config', 'filter.sub.clean', `${script} filter`)
    const store = join(repository.path, '.git/modules/lib')
    const other = await newRepository()
    writeFileSync(join(store, 'objects/info/alternates'), `${join(other.path, '.git/objects')}\n`)
    repositoryAt(store).git('config', 'core.alternateRefsCommand', `${script};:`)
    writeFileSync(join(root, 'lib/lib.txt'), 'changed')
    expect(await merged(worktrees)).toBe('published')
    const commit = repository.git('rev-parse', 'main:lib')
    expect(repositoryAt(join(repository.path, 'lib')).git('show', `${commit}:lib.txt`)).toBe('changed')
    expect(ran()).toBe(false)
  })

  it('starts no filter of the configuration of one worktree', async () => {
    const repository = await newRepository({ 'a.txt': 'one\n', '.gitattributes': '*.txt filter=own\n' })
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    const { script, ran } = await evil()
    const inside = repositoryAt(root)
    inside.git('config', 'extensions.worktreeConfig', 'true')
    inside.git('config', '--worktree', 'filter.own.clean', `${script} filter`)
    writeFileSync(join(root, 'a.txt'), 'two\n')
    expect(await merged(worktrees)).toBe('published')
    expect(ran()).toBe(false)
  })

  it('does not follow a link of the worktree to another repository, and makes the worktree again', async () => {
    const repository = await newRepository()
    const other = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    symlinkSync('/dev/null', join(other.path, '.git/planted'))
    writeFileSync(join(root, '.git'), `gitdir: ${join(other.path, '.git')}\n`)
    await expect(committed(worktrees)).rejects.toMatchObject({ code: 'no_worktree' })
    expect(lstatSync(join(other.path, '.git/planted')).isSymbolicLink()).toBe(true)
    await opened(worktrees)
    expect(await merged(worktrees)).toBe('merged')
    // The entry of another worktree of the same repository is not its own either.
    await opened(worktrees, 'T-2')
    writeFileSync(join(root, '.git'), `gitdir: ${join(repository.path, '.git/worktrees/T-2')}\n`)
    await expect(committed(worktrees)).rejects.toMatchObject({ code: 'no_worktree' })
  })

  it('merges nothing into a folder that "core.worktree" names, also if an agent sets it while the task is open', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    repositoryAt(root).write('b.txt', 'b')
    const elsewhere = await temporaryFolder()
    repository.git('config', 'extensions.worktreeConfig', 'true')
    for (const scope of ['--local', '--worktree']) {
      await committed(worktrees)
      repository.git('config', scope, 'core.worktree', elsewhere)
      const why = { code: 'files_elsewhere', message: expect.stringContaining(elsewhere) }
      await expect(merged(worktrees)).rejects.toMatchObject(why)
      repository.git(
        'config',
        '--file',
        scope === '--local' ? '.git/config' : '.git/config.worktree',
        '--unset',
        'core.worktree',
      )
    }
    expect(readdirSync(elsewhere)).toEqual([])
    expect(await merged(worktrees)).toBe('published')
  })

  it('refuses a repository whose configuration includes other files under conditions', async () => {
    const repository = await newRepository({ 'a.txt': 'one\n', '.gitattributes': '*.txt filter=own\n' })
    const { script, ran } = await evil()
    const included = join(await temporaryFolder(), 'included')
    writeFileSync(included, `[filter "own"]\n\tsmudge = ${script} filter\n`)
    repository.git('config', 'includeIf.gitdir:**/worktrees/**.path', included)
    const worktrees = await worktreesOf(repository)
    await expect(worktrees.open(task('T-1'), null)).rejects.toMatchObject({ code: 'conditional_include' })
    expect(ran()).toBe(false)
  })

  it('starts no program that shows or verifies signatures', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    const { script, ran } = await evil()
    const settings = { 'gpg.program': script, 'log.showSignature': 'true', 'merge.verifySignatures': 'true' }
    for (const [key, value] of Object.entries(settings)) repository.git('config', key, value)
    const inside = repositoryAt(root)
    inside.commit('agent', { 'b.txt': 'b' })
    inside.git('reset', '-q', '--hard', await signedCommit(inside))
    expect(await merged(worktrees)).toBe('published')
    expect(readFileSync(join(repository.path, 'b.txt'), 'utf8')).toBe('b')
    expect(ran()).toBe(false)
    repository.git('log', '--format=%ce')
    expect(ran()).toBe(true)
  })

  it('fetches a missing object from no program, also when it reads the changes of a run', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    await opened(worktrees)
    const { commit } = await committed(worktrees)
    const { script, ran } = await evil()
    const settings = {
      'core.repositoryFormatVersion': '1',
      'extensions.partialClone': 'far',
      'remote.far.url': repository.path,
      'remote.far.promisor': 'true',
      'remote.far.uploadpack': `${script};git-upload-pack`,
      'protocol.file.allow': 'always',
    }
    for (const [key, value] of Object.entries(settings)) repository.git('config', key, value)
    const missing = '1'.repeat(40)
    expect(await worktrees.isMerged(task('T-1'), [missing])).toBe(false)
    await gitHistory(repository.path)
      .filesAt(missing, ['a.txt'])
      .catch(() => undefined)
    expect((await worktrees.rebase(task('T-1'), commit)).is).toBe('merged')
    expect(ran()).toBe(false)
  })
})
