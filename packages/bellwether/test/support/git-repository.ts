/** A git repository for a test, with the account's own git and no configuration of the machine. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { onTestFinished } from 'vitest'
import { testFolder } from './postgres.js'

const env = {
  PATH: process.env['PATH'],
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'ann',
  GIT_AUTHOR_EMAIL: 'ann@example.org',
  GIT_COMMITTER_NAME: 'ann',
  GIT_COMMITTER_EMAIL: 'ann@example.org',
  GIT_ALLOW_PROTOCOL: 'file',
}

export interface TestRepository {
  readonly path: string
  /** Runs git and returns its output without the last line break. */
  git(...args: string[]): string
  write(file: string, text: string): void
  commit(message: string, files?: Readonly<Record<string, string>>): string
}

export function repositoryAt(path: string): TestRepository {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: path, env, encoding: 'utf8', stdio: 'pipe' }).trimEnd()
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(path, file)), { recursive: true })
    writeFileSync(join(path, file), text)
  }
  return {
    path,
    git,
    write,
    commit(message, files = {}) {
      for (const [file, text] of Object.entries(files)) write(file, text)
      git('add', '-A')
      git('commit', '-q', '--allow-empty', '-m', message)
      return git('rev-parse', 'HEAD')
    },
  }
}

/** A folder that is removed after the test. */
export async function temporaryFolder(): Promise<string> {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** A repository with the branch main and one commit. */
export async function newRepository(
  files: Readonly<Record<string, string>> = { 'a.txt': 'one\n' },
): Promise<TestRepository> {
  const repository = repositoryAt(await temporaryFolder())
  repository.git('init', '-q', '-b', 'main')
  if (Object.keys(files).length > 0) repository.commit('start', files)
  return repository
}
