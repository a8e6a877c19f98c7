/**
 * Reads commits of a git repository that may be hostile: its configuration may name programs. Only `rev-parse` and `cat-file` run, which
 * start none of them (no filters, hooks, fsmonitor or fetches), with a time limit. A folder without a repository, or a machine
 * without git, is a value and not an error.
 */
import { execFile } from 'node:child_process'
import { defined, environment, errorMessage } from '@bellwether/base'
import { inheritedEnvironment } from './processes/environment.js'

export interface GitHistory {
  /** The commit that is checked out, or why there is none. */
  head(signal?: AbortSignal): Promise<{ readonly commit: string } | { readonly why: string }>
  /** The commit that was checked out at a time, as far as the repository remembers; or why it is unknown. */
  headAt(at: Date): Promise<{ readonly commit: string } | { readonly why: string }>
  /** Whether the repository has these commits: what no branch has is removed some day. Throws if git fails. */
  hasCommits(commits: readonly string[]): Promise<boolean>
  /** Files at a commit, by path. Null: too large, or not a file. Absent: the commit does not have it. Throws if git fails. */
  filesAt(commit: string, paths: readonly string[], signal?: AbortSignal): Promise<ReadonlyMap<string, Buffer | null>>
}

const timeoutMs = 10_000
// Larger files have no diff that a person would read.
const gitFileMaxBytes = 1_048_576
// All files of one request together.
const outputMaxBytes = 16 * 1_048_576

// The repository may belong to another account: nothing of it is executed.
const hardened = ['--no-replace-objects', '-c', 'core.fsmonitor=false', '-c', 'safe.directory=*']

export function gitHistory(root: string): GitHistory {
  const run = (args: readonly string[], input: string, signal?: AbortSignal): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      const env = {
        ...inheritedEnvironment([]),
        PATH: environment()['PATH'],
        LC_ALL: 'C',
        GIT_OPTIONAL_LOCKS: '0',
        GIT_NO_LAZY_FETCH: '1',
        // Overrides the settings of the repository, also where git does not know GIT_NO_LAZY_FETCH (before 2.44).
        GIT_ALLOW_PROTOCOL: 'none',
        GIT_TERMINAL_PROMPT: '0',
      }
      const options = { cwd: root, env, timeout: timeoutMs, maxBuffer: outputMaxBytes, killSignal: 'SIGKILL' } as const
      const git = execFile(
        'git',
        [...hardened, ...args],
        { ...options, encoding: 'buffer', ...defined({ signal }) },
        (error, stdout, stderr) => {
          if (error === null) resolve(stdout)
          else reject(new Error(stderr.toString().trim().split('\n')[0] || errorMessage(error), { cause: error }))
        },
      )
      // git may end before it has read everything; the exit code decides.
      git.stdin?.on('error', () => undefined)
      git.stdin?.end(input)
    })

  async function commitAt(name: string, signal?: AbortSignal) {
    try {
      const commit = (await run(['rev-parse', '--verify', '--quiet', `${name}^{commit}`], '', signal)).toString().trim()
      return /^[0-9a-f]{40,64}$/.test(commit) ? { commit } : { why: 'git printed no commit' }
    } catch (error) {
      return {
        why: errorMessage(error)
          .replace(/^fatal: (not a git repository) .*/, 'this is $1')
          .slice(0, 300),
      }
    }
  }

  return {
    head: (signal) => commitAt('HEAD', signal),
    headAt: (at) => commitAt(`HEAD@{${at.toISOString()}}`),

    async hasCommits(commits) {
      const names = commits.map((commit) => `${commit}^{commit}\n`).join('')
      const found = (await run(['cat-file', '--batch-check=%(objecttype)'], names)).toString()
      return found === 'commit\n'.repeat(commits.length)
    },

    async filesAt(commit, paths, signal) {
      // A name with a newline cannot be asked for.
      const wanted = paths.filter((path) => !path.includes('\n'))
      const files = new Map<string, Buffer | null>(
        paths.filter((path) => path.includes('\n')).map((path) => [path, null]),
      )
      if (wanted.length === 0) return files
      const names = (some: readonly string[]) => some.map((path) => `${commit}:./${path}\n`).join('')
      const found = (await run(['cat-file', '--batch-check=%(objecttype) %(objectsize)'], names(wanted), signal))
        .toString()
        .split('\n')
      const small: string[] = []
      for (const [at, path] of wanted.entries()) {
        const [, type, size] = /^(\w+) (\d+)$/.exec(found[at] ?? '') ?? []
        if (type === undefined) continue
        if (type === 'blob' && Number(size) <= gitFileMaxBytes) small.push(path)
        else files.set(path, null)
      }
      if (small.length === 0) return files
      const contents = await run(['cat-file', '--batch=%(objectsize)'], names(small), signal)
      let from = 0
      for (const path of small) {
        const start = contents.indexOf(10, from) + 1
        const end = start + Number(contents.subarray(from, start - 1).toString())
        files.set(path, contents.subarray(start, end))
        from = end + 1
      }
      return files
    },
  }
}
