/** Which kind of sandbox works on this machine, found by starting one. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { environment } from '@bellwether/base'
import type { RunAs } from '../run-as.js'
import { ownProgram } from '../../search-path.js'
import { bubblewrap, type Frame } from './bubblewrap.js'
import { systemMounts } from './mounts.js'
import { namespaces } from './namespaces.js'

export type SandboxKind = 'bubblewrap' | 'namespaces'

export type Available =
  | { readonly kind: SandboxKind; readonly wrap: (frame: Frame, root: string) => readonly string[] }
  | { readonly kind: undefined; readonly why: string }

export const installHint =
  'install bubblewrap (Debian, Ubuntu: sudo apt install bubblewrap; Fedora: sudo dnf install bubblewrap)'
const probeMs = 10_000

/** Starts a program in each kind of sandbox until one works. `only`: try no other kind. */
export function findSandbox(runAs?: RunAs, only?: SandboxKind): Available {
  if (process.platform !== 'linux') return { kind: undefined, why: 'only Linux has it' }
  const account = runAs?.account ?? { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 }
  const caller = { ...account, path: environment()['PATH'] ?? '/usr/bin:/bin' }
  const kinds: readonly { kind: SandboxKind; wrap: (frame: Frame, root: string) => readonly string[] }[] = [
    { kind: 'bubblewrap', wrap: (frame) => bubblewrap(ownProgram('bwrap'), frame) },
    { kind: 'namespaces', wrap: (frame, root) => [...namespaces(ownProgram('unshare'), frame, caller), root] },
  ]
  const problems: string[] = []
  for (const found of kinds.filter(({ kind }) => only === undefined || kind === only)) {
    const problem = probe(found.wrap, runAs)
    if (problem === undefined) return found
    problems.push(`${found.kind}: ${problem}`)
  }
  return { kind: undefined, why: problems.join('; ') }
}

/** Why this kind does not work here. */
function probe(wrap: (frame: Frame, root: string) => readonly string[], runAs: RunAs | undefined): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'bw-probe-'))
  try {
    const frame = { mounts: systemMounts(false), cwd: '/', temporary: '/var', keepsFileRights: false }
    const [program, ...args] = [...(runAs?.prefix ?? []), ...wrap(frame, folder), '/bin/sh', '-c', 'exit 0']
    const { PATH = '/usr/bin:/bin' } = environment()
    const ran = spawnSync(program!, args, {
      env: { PATH },
      cwd: '/',
      timeout: probeMs,
      encoding: 'utf8',
      stdio: 'pipe',
    })
    if (ran.status === 0) return undefined
    if (ran.error !== undefined)
      return 'code' in ran.error && ran.error.code === 'ENOENT' ? 'not installed' : ran.error.message
    return ran.stderr.trim().split('\n').at(-1)?.slice(0, 200) || `exit code ${ran.status}`
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
