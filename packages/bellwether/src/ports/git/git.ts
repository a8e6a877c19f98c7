/**
 * Runs git for Bellwether: with a timeout, a bounded output and an environment in which a repository runs nothing. Hooks, filters,
 * editors, credential helpers and the configuration of the account are off; git never asks on a terminal. A call with a lock waits for
 * the git processes of a Bellwether process that was killed.
 */
import { spawn } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { defined, environment, hasCode } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { signalTo } from '../processes/kill-tree.js'

export interface GitCall {
  readonly args: readonly string[]
  readonly cwd: string
  /** A script for /bin/sh that calls git; `args` are its arguments. */
  readonly script?: string
  /** The file whose flock the call holds while it runs. */
  readonly lock?: string
  readonly timeoutMs: number
  readonly env?: Readonly<Record<string, string>>
  /** Settings that override those of the repository. */
  readonly config?: readonly Setting[]
  /** The account that owns the repository, if this process is root. */
  readonly owner?: { readonly uid: number; readonly gid: number } | undefined
  /** Exit codes that are answers, not failures. Default: 0. */
  readonly answers?: readonly number[]
}

export interface GitAnswer {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export type Setting = readonly [key: string, value: string]

// The list of all files that a large change touches; more is an error, never a cut list.
const outputMaxBytes = 64 * 2 ** 20
const lockBusyCode = 75
const killGraceMs = 2_000

/** What no repository may decide: each of these could run a program, ask a person or reach the network. */
const safeSettings: readonly Setting[] = [
  ['core.hooksPath', '/dev/null'],
  ['core.fsmonitor', 'false'],
  ['core.untrackedCache', 'false'],
  ['core.editor', 'true'],
  ['sequence.editor', 'true'],
  ['core.pager', 'cat'],
  ['core.askPass', 'true'],
  ['core.quotePath', 'false'],
  ['credential.helper', ''],
  ['commit.gpgSign', 'false'],
  ['log.showSignature', 'false'],
  ['merge.verifySignatures', 'false'],
  ['core.alternateRefsCommand', 'true'],
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
  ['rerere.enabled', 'false'],
  ['merge.renames', 'true'],
  ['merge.conflictStyle', 'merge'],
  ['rebase.autoSquash', 'false'],
  ['rebase.autoStash', 'false'],
  ['rebase.updateRefs', 'false'],
  ['rebase.rebaseMerges', 'false'],
  ['rebase.missingCommitsCheck', 'ignore'],
  ['submodule.recurse', 'false'],
  ['fetch.recurseSubmodules', 'false'],
  ['diff.external', ''],
  ['status.submoduleSummary', 'false'],
  ['advice.detachedHead', 'false'],
  // Git runs as the owner of the repository, or as this account; nothing of the repository is executed.
  ['safe.directory', '*'],
]

// A partial clone fetches missing objects from its server. Other transports start a program that the repository names.
const remoteTransports = 'https:http:ssh'
/** In `env` of a call that copies objects between folders of this machine. */
export const localTransport = { GIT_ALLOW_PROTOCOL: 'file' }

// The commands are ours, not the repository's: pointers are checked out without a download, and new large files become pointers.
const lfsSettings: readonly Setting[] = [
  ['filter.lfs.clean', 'git-lfs clean -- %f'],
  ['filter.lfs.smudge', 'git-lfs smudge --skip -- %f'],
  ['filter.lfs.process', ''],
  ['filter.lfs.required', 'false'],
]

/** The committer of the commits that Bellwether makes. */
export const identity = { name: 'Bellwether', email: 'bellwether@localhost.invalid' }

function isInstalled(program: string): boolean {
  return (environment()['PATH'] ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false // not in this folder
    }
  })
}

function environmentOf({ env = {}, config = [] }: GitCall): Record<string, string> {
  const { PATH = '/usr/local/bin:/usr/bin:/bin', HOME = '/', TMPDIR } = environment()
  const lfs = isInstalled('git-lfs') ? lfsSettings : []
  const settings = [...safeSettings, ...config, ...lfs]
  return {
    PATH,
    HOME,
    ...defined({ TMPDIR }),
    LC_ALL: 'C.UTF-8',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: 'true',
    SSH_ASKPASS: 'true',
    GIT_SSH_COMMAND: 'ssh -oBatchMode=yes',
    GIT_EDITOR: 'true',
    GIT_SEQUENCE_EDITOR: 'true',
    GIT_PAGER: 'cat',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_LFS_SKIP_SMUDGE: '1',
    GIT_MERGE_AUTOEDIT: 'no',
    GIT_ALLOW_PROTOCOL: remoteTransports,
    GIT_AUTHOR_NAME: identity.name,
    GIT_AUTHOR_EMAIL: identity.email,
    GIT_COMMITTER_NAME: identity.name,
    GIT_COMMITTER_EMAIL: identity.email,
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], at) => [
        [`GIT_CONFIG_KEY_${at}`, key],
        [`GIT_CONFIG_VALUE_${at}`, value],
      ]),
    ),
    ...env,
  }
}

/** Throws Terminal `git_failed`, `git_missing`; Retryable `git_timeout`, `git_busy`. */
export async function runGit(call: GitCall): Promise<GitAnswer> {
  const { args, cwd, script, lock, timeoutMs, owner, answers = [0] } = call
  const program = script === undefined ? ['git', ...args] : ['/bin/sh', '-c', script, 'git', ...args]
  // The lock is inherited by git: it is held until git ends, also if this process is killed.
  const withLock = ['flock', '-w', String(Math.max(1, timeoutMs / 1_000)), '-E', String(lockBusyCode)]
  const [first, ...rest] = lock === undefined ? program : [...withLock, lock, ...program]
  const name = script === undefined ? `git ${args.slice(0, 2).join(' ')}` : 'a script of git commands'
  const child = spawn(first!, rest, {
    cwd,
    env: environmentOf(call),
    // A session of its own: Ctrl-C does not reach it, and the timeout kills whatever git started.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(owner === undefined ? {} : { uid: owner.uid, gid: owner.gid }),
  })
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  let bytes = 0
  let failure: Error | undefined
  const signalGroup = (signal: NodeJS.Signals) => {
    if (child.pid !== undefined) signalTo(-child.pid, signal)
  }
  let killTimer: NodeJS.Timeout | undefined
  const kill = (error: Error) => {
    if (failure !== undefined) return
    failure = error
    // With SIGTERM, git removes its lock files.
    signalGroup('SIGTERM')
    killTimer = setTimeout(() => {
      signalGroup('SIGKILL')
      // Something that left the group may keep the outputs open.
      for (const stream of [child.stdout, child.stderr]) stream.destroy()
    }, killGraceMs)
  }
  const timer = setTimeout(
    () =>
      kill(
        new Retryable(`${name} in ${cwd} took longer than ${timeoutMs / 1_000} s and was stopped`, {
          code: 'git_timeout',
          hint: 'Raise "gitTimeoutSec" in config/workspace-policy.json if the repository is large.',
        }),
      ),
    // With a lock, the wait for it counts apart.
    lock === undefined ? timeoutMs : 2 * timeoutMs,
  )
  const collect = (into: Buffer[]) => (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= outputMaxBytes) into.push(chunk)
    else kill(new Terminal(`${name} in ${cwd} printed more than ${outputMaxBytes} bytes`, { code: 'git_failed' }))
  }
  child.stdout.on('data', collect(stdout))
  child.stderr.on('data', collect(stderr))
  try {
    const exit = await new Promise<number | null>((resolve, reject) => {
      child.on('error', (error) => reject(notStarted(error, first!, cwd)))
      child.once('close', resolve)
    })
    if (failure !== undefined) {
      signalGroup('SIGKILL')
      throw failure
    }
    const code = exit ?? -1
    const answer = { code, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() }
    if (lock !== undefined && code === lockBusyCode)
      throw new Retryable(`${name} in ${cwd} waited ${timeoutMs / 1_000} s for another git command of Bellwether`, {
        code: 'git_busy',
      })
    if (code !== 0 && lockTaken.test(answer.stderr)) throw locked(name, cwd, answer.stderr)
    if (answers.includes(code)) return answer
    const why = answer.stderr.trim().split('\n').slice(-5).join(' ').slice(0, 1_000) || `exit code ${code}`
    throw new Terminal(`Cannot run ${name} in ${cwd}: ${why}`, { code: 'git_failed' })
  } finally {
    clearTimeout(timer)
    clearTimeout(killTimer)
  }
}

const lockTaken = /Unable to create '(.+\.lock)': File exists/

/** A git command of a person runs in the same folder, or one was killed there. */
const locked = (name: string, cwd: string, stderr: string) =>
  new Retryable(`Cannot run ${name} in ${cwd}: another git command is running there, or was killed`, {
    code: 'git_busy',
    hint: `If no git command is running there, remove ${lockTaken.exec(stderr)?.[1]}.`,
  })

function notStarted(error: Error, program: string, cwd: string): Terminal {
  if (!existsSync(cwd))
    return new Terminal(`Cannot run git in ${cwd}: the folder does not exist`, { code: 'git_failed', cause: error })
  const isMissing = hasCode(error, 'ENOENT')
  return new Terminal(`Cannot start ${program} in ${cwd}: ${error.message}`, {
    code: isMissing ? 'git_missing' : 'git_failed',
    cause: error,
    ...(isMissing ? { hint: `Install ${program === 'git' ? 'git' : 'git and flock (util-linux)'}.` } : {}),
  })
}
