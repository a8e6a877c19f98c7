/**
 * Puts the command of a turn into a sandbox: it sees the system's programs, its workspace, its scratch folder and what its agent file names, and
 * nothing else of the machine; it has its own processes and its own network. If no sandbox can be had, the agent's file or the setting decides
 * whether the command runs without one.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, realpathSync, statSync } from 'node:fs'
import { Server } from 'node:net'
import { homedir } from 'node:os'
import { isAbsolute, join, relative, resolve } from 'node:path'
import { environment, type Log } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { commonOf, topOf } from '../../git/workspace-folder.js'
import { noUpdateNotices } from '../environment.js'
import type { RunAs } from '../run-as.js'
import type { Scratch } from '../scratch.js'
import { findSandbox, installHint, type Available, type SandboxKind } from './available.js'
import { gitMounts } from './git-mounts.js'
import { fillHome, homeMounts, programMounts, type CliHome } from './home.js'
import { covers, hidden, isReadable, isWithin, readOnly, realOf, systemMounts, writable, type Mount } from './mounts.js'
import { loopbackPorts, type Network } from './network.js'
import { openProxy } from './proxy.js'

export interface SandboxOptions {
  readonly log: Log
  /** The project folder. */
  readonly root: string
  /** For agents whose file does not say it. */
  readonly fallback: 'workspace' | 'none'
  /** What happens to such agents if no sandbox can be had. */
  readonly missing: 'warn' | 'refuse'
  /** The folder with the sessions of coding agents: one folder per agent. */
  readonly sessions: string
  /** Folders of Bellwether that no program may see. */
  readonly hidden: readonly string[]
  /** Files and folders of the project that programs may read, but not change. */
  readonly control: readonly string[]
  readonly runAs?: RunAs | undefined
  /** Only this kind. Default: the first that works. */
  readonly kind?: SandboxKind | undefined
}

/** What an agent file says about its sandbox. */
export interface SandboxSpec {
  readonly sandbox?: 'workspace' | 'none' | undefined
  readonly network?: Network | undefined
  readonly sandbox_read?: readonly string[] | undefined
  readonly sandbox_write?: readonly string[] | undefined
}

interface SandboxRequest {
  readonly spec: SandboxSpec
  readonly agentId: string
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** The project folder, or its counterpart in the worktree of a task. */
  readonly workspace: string
  readonly scratch: Scratch
  readonly cli: CliHome
  /** Whether it may commit in the worktree of a task; otherwise the repository does not change. Default: true. */
  readonly commits?: boolean
}

interface Entered {
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly isSandboxed: boolean
  /** What was missing, for the transcript of the turn. */
  readonly note?: string
  /** Takes the listening sockets of the sandbox. Absent without a network. */
  readonly onMessage?: (message: unknown, handle?: unknown) => void
  readonly close: () => void
}

export interface Sandbox {
  /** Throws `sandbox_missing` if the command must not run without a sandbox. */
  enter(request: SandboxRequest): Promise<Entered>
}

/** The command as it is, with a folder for its temporary files. */
export const noSandbox: Sandbox = {
  enter: async ({ command, env, scratch }) => ({
    command,
    env: { ...env, TMPDIR: scratch.temporary },
    isSandboxed: false,
    close: () => undefined,
  }),
}

const proxyPort = 3128
const identityMs = 5_000

// Opens the sandbox's ports in its own network, hands them to the worker, and makes way for the program.
const openPorts = `const net = require('node:net')
const ports = process.argv.slice(1).map(Number)
let left = ports.length
for (const port of ports) {
  const server = net.createServer({ pauseOnConnect: true })
  server.on('error', (error) => { console.error('sandbox: cannot listen on port ' + port + ': ' + error.message); process.exit(1) })
  server.listen({ port, host: '127.0.0.1', backlog: 128 }, () => process.send({ port }, server, () => { if (--left === 0) process.exit(0) }))
}`
const enterNetwork = `node=$1; shift; ports=$1; shift
env -i NODE_CHANNEL_FD="$NODE_CHANNEL_FD" NODE_CHANNEL_SERIALIZATION_MODE="$NODE_CHANNEL_SERIALIZATION_MODE" "$node" -e "$1" -- $ports < /dev/null || exit 126
shift; unset NODE_CHANNEL_FD NODE_CHANNEL_SERIALIZATION_MODE PWD OLDPWD
exec "$@" 3>&- 4>&-`

export function openSandbox(options: SandboxOptions): Sandbox {
  const { log, root, runAs } = options
  const account = runAs?.account
  const isRoot = process.geteuid?.() === 0 && account === undefined
  let available: Available | undefined
  let identity: Promise<string> | undefined
  /** Scratch folders in which programs may have run. */
  const filled = new WeakSet<Scratch>()

  async function build(request: SandboxRequest, found: Extract<Available, { kind: SandboxKind }>): Promise<Entered> {
    const { spec, env, cwd, command, scratch } = request
    const home = env['HOME'] ?? homedir()
    const path = env['PATH'] ?? ''
    const workspace = realpathSync(request.workspace)
    const project = realpathSync(root)
    const isTask = workspace !== project
    // A repository around the home folder holds more than the project: it stays outside.
    const repository = repositoryAround(workspace, home)
    const top = repository ?? workspace
    const shared = isTask && request.commits !== false ? commonAround(project, home) : undefined
    if (isWithin(workspace, home))
      throw new Terminal(`the folder ${workspace} contains the home folder ${home}`, {
        code: 'sandbox_missing',
        hint: 'use a project folder of its own',
      })
    const settings = await (identity ??= gitIdentity(home))
    const ofHome = {
      home,
      scratch,
      path,
      sessions: options.sessions,
      agentId: request.agentId,
      cli: request.cli,
      account,
    }
    if (!filled.has(scratch)) fillHome(ofHome, settings)
    filled.add(scratch)
    const named = (list: readonly string[] | undefined, mount: (path: string) => Mount) =>
      (list ?? [])
        .map((name) => expand(name, home, workspace))
        .filter((path) => existsSync(path) && !isWayOut(path, workspace) && !isWayOut(path, request.workspace))
        .map(mount)
    const shown = [...systemMounts(isRoot), ...homeMounts(ofHome)]
    const programs = [...shown, ...programMounts([command[0] ?? '', process.execPath], path, shown)]
    const mounts: Mount[] = [
      // Another account cannot reach everything on the worker's search path.
      ...programs.filter((mount) => account === undefined || mount.kind !== 'read' || isReadable(mount.from, account)),
      readOnly(scratch.path),
      writable(scratch.temporary),
      ...named(spec.sandbox_read, (one) => readOnly(one)),
      ...(isTask || top === workspace ? [] : [readOnly(top)]),
      writable(isTask ? top : workspace),
      ...(repository === undefined ? [] : await gitMounts(repository, shared, account)),
      ...named(spec.sandbox_write, (one) => writable(one)),
      // In a worktree they are copies, which take effect only after a merge.
      ...(isTask ? [] : options.control)
        .map((name) => resolve(workspace, name))
        .filter((path) => existsSync(path) && !isWayOut(path, workspace))
        .map((path) => readOnly(path)),
    ]
    mounts.push(
      ...options.hidden.filter((folder) => !isWithin(folder, workspace) && covers(mounts, folder)).flatMap(hidden),
    )
    const { uid } = statSync(workspace)
    const frame = { mounts, cwd, temporary: scratch.temporary, keepsFileRights: isRoot && uid !== 0 }
    const network = spec.network ?? 'on'
    const newRoot = join(scratch.path, 'root')
    mkdirSync(newRoot, { recursive: true })
    const wrapped = found.wrap(frame, newRoot)
    const inside = { ...noUpdateNotices, ...env, HOME: home, TMPDIR: '/tmp', GIT_OPTIONAL_LOCKS: '0' }
    if (network === 'off')
      return { command: [...wrapped, ...command], env: inside, isSandboxed: true, close: () => undefined }
    const ports = [proxyPort, ...loopbackPorts(network)]
    const proxy = openProxy(network, (address) =>
      log.info({ agent_id: request.agentId, address }, 'sandbox refused a connection'),
    )
    const start = ['/bin/sh', '-c', enterNetwork, 'bellwether-network', process.execPath, ports.join(' '), openPorts]
    return {
      command: [...wrapped, ...start, ...command],
      env: { ...inside, ...proxyVariables },
      isSandboxed: true,
      onMessage(message, handle) {
        const { port } = message as { readonly port: number }
        if (handle instanceof Server) proxy.serve(handle, port === proxyPort ? undefined : port)
      },
      close: () => proxy.close(),
    }
  }

  return {
    async enter(request) {
      const { spec } = request
      const wanted = spec.sandbox ?? options.fallback
      if (wanted === 'none') return noSandbox.enter(request)
      let why: string
      try {
        available ??= findSandbox(runAs, options.kind)
        if (available.kind !== undefined) return await build(request, available)
        why = available.why
      } catch (error) {
        if (!(error instanceof Terminal) || error.code !== 'sandbox_missing') throw error
        why = error.message
      }
      if (spec.sandbox !== undefined || options.missing === 'refuse')
        throw new InvalidInput(`Cannot run the command in a sandbox: ${why}`, {
          code: 'sandbox_missing',
          hint: `${installHint}; or set "sandbox: none" in the agent file`,
        })
      log.warn({ agent_id: request.agentId, why, hint: installHint }, 'command runs without a sandbox')
      return {
        ...(await noSandbox.enter(request)),
        note: `This command runs without a sandbox: ${why}. To have one, ${installHint}.`,
      }
    },
  }
}

/** The folder with the repository of a folder; undefined: none, or one that contains the home folder. */
function repositoryAround(folder: string, home: string): string | undefined {
  const top = topOf(folder)
  return top === undefined || isWithin(top, realOf(home) ?? home) ? undefined : top
}

function commonAround(folder: string, home: string): string | undefined {
  const top = repositoryAround(folder, home)
  return top === undefined ? undefined : commonOf(top)
}

/** Whether a path in the workspace is or passes a link, which a program may have planted there: a mount would show its target. */
function isWayOut(path: string, workspace: string): boolean {
  const isInside = isWithin(workspace, path)
  return isInside && realpathSync(path) !== join(realpathSync(workspace), relative(workspace, path))
}

/** The settings of git with the name that the account's own git has. Without git or a name, the agent has none either. */
function gitIdentity(home: string): Promise<string> {
  return new Promise((settle) => {
    const args = ['config', '--global', '--get-regexp', String.raw`^user\.(name|email)$`]
    execFile(
      'git',
      args,
      { timeout: identityMs, env: { HOME: home, PATH: environment()['PATH'] } },
      (_error, stdout) => {
        const lines = stdout.split('\n').flatMap((line) => {
          const found = /^user\.(name|email) ([^"\\]*)$/.exec(line)
          return found === null ? [] : [`\t${found[1]} = "${found[2]}"\n`]
        })
        settle(`[user]\n${lines.join('')}`)
      },
    )
  })
}

const proxyUrl = `http://127.0.0.1:${proxyPort}`
const proxyVariables = {
  ...Object.fromEntries(['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'].map((name) => [name, proxyUrl])),
  NO_PROXY: 'localhost,127.0.0.1,::1',
  no_proxy: 'localhost,127.0.0.1,::1',
  NODE_USE_ENV_PROXY: '1',
}

function expand(name: string, home: string, workspace: string): string {
  const path = name === '~' || name.startsWith('~/') ? join(home, name.slice(1)) : name
  return isAbsolute(path) ? path : resolve(workspace, path)
}
