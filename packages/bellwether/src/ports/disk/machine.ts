/**
 * Describes the machine that this process runs on: host name, boot id, processes, and the filesystem of a path. Returns
 * `undefined` if the system cannot answer; it never guesses.
 */
import { readFileSync, readlinkSync } from 'node:fs'
import { readFile, realpath, statfs } from 'node:fs/promises'
import { hostname } from 'node:os'
import { defined, hasCode } from '@bellwether/base'

export interface Machine {
  readonly host: string
  /** Changes with every boot. */
  readonly bootId: string | undefined
  /** Names the set of processes that this one can see: a pid says nothing about a process in another container. */
  readonly pidNamespace: string | undefined
  readonly pid: number
  /** Milliseconds since boot, the same for all processes of the machine; setting the wall clock does not change it. */
  uptimeMs(): number
  /** Whether a process has this pid; `startMark` differs from that of an earlier process with the same pid. */
  process(pid: number): { readonly alive: boolean; readonly startMark?: string; readonly startedAtMs?: number }
  /** The filesystem type as `mount` shows it: ext4, nfs4, fuse.sshfs, … */
  filesystem(path: string): Promise<string | undefined>
}

/** Undefined: there is no /proc on this system, or the process is gone. */
function fromProc(read: () => string): string | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof Error) return undefined
    throw error
  }
}

const readText = (path: string): string | undefined => fromProc(() => readFileSync(path, 'utf8'))

/** Fields after the command in /proc/PID/stat: the state, and the ticks between boot and the start of the process. */
const [stateField, startField] = [0, 19]
const ticksPerSecond = 100 // USER_HZ is 100 on every Linux that Node runs on

function statFields(pid: number): readonly string[] {
  const stat = readText(`/proc/${pid}/stat`)
  // The command, in parentheses, may contain spaces and parentheses.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? []
}

function startedAtMs(ticks: string): number | undefined {
  const boot = /^btime (\d+)$/m.exec(readText('/proc/stat') ?? '')?.[1]
  return boot === undefined ? undefined : (Number(boot) + Number(ticks) / ticksPerSecond) * 1000
}

/** The type of the mount that contains `path`, from /proc/self/mountinfo: the longest mount point that is a prefix of it. */
export function mountType(mountinfo: string, path: string): string | undefined {
  let best: { point: string; type: string } | undefined
  for (const line of mountinfo.split('\n')) {
    const [left, right] = line.split(' - ')
    const raw = left?.split(' ')[4]
    const type = right?.split(' ')[0]
    if (raw === undefined || type === undefined) continue
    const point = raw.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
    const within = point === '/' || path === point || path.startsWith(`${point}/`)
    // A later mount on the same mount point hides the earlier one.
    if (within && (best === undefined || point.length >= best.point.length)) best = { point, type }
  }
  return best?.type
}

/** Magic numbers of statfs(2), for systems without mountinfo. */
const magic: Readonly<Record<number, string>> = {
  0x6969: 'nfs',
  0x517b: 'smb',
  0xff534d42: 'cifs',
  0xfe534d42: 'smb2',
  0x01021997: '9p',
  0x5346414f: 'afs',
  0x00c36400: 'ceph',
  0x0bd00bd0: 'lustre',
}

/** Whether a process with this number exists. */
export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return hasCode(error, 'EPERM')
  }
}

export const systemMachine: Machine = {
  host: hostname(),
  bootId: readText('/proc/sys/kernel/random/boot_id')?.trim(),
  pidNamespace: fromProc(() => readlinkSync('/proc/self/ns/pid')),
  pid: process.pid,
  uptimeMs: () => Number(process.hrtime.bigint() / 1_000_000n),
  process(pid) {
    if (!Number.isSafeInteger(pid) || pid <= 0 || !alive(pid)) return { alive: false }
    const fields = statFields(pid)
    // A zombie has ended; its parent has not read its exit code yet.
    if (fields[stateField] === 'Z') return { alive: false }
    const ticks = fields[startField]
    if (ticks === undefined) return { alive: true }
    return { alive: true, startMark: ticks, ...defined({ startedAtMs: startedAtMs(ticks) }) }
  },
  async filesystem(path) {
    const [real, { type }] = [await realpath(path), await statfs(path)]
    // Without /proc, the magic number of the filesystem decides.
    const mounts = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '')
    return mountType(mounts, real) ?? magic[type]
  },
}
