/**
 * Describes the machine that this process runs on: host name, boot id, processes, and the filesystem of a path. Returns
 * `undefined` if the system cannot answer; it never guesses.
 */
import { readFileSync } from 'node:fs'
import { readFile, realpath, statfs } from 'node:fs/promises'
import { hostname } from 'node:os'
import { defined } from '@bellwether/base'

export interface Machine {
  readonly host: string
  /** Changes with every boot. */
  readonly bootId: string | undefined
  readonly pid: number
  /** Milliseconds since boot, the same for all processes of the machine; setting the wall clock does not change it. */
  uptimeMs(): number
  /** Whether a process has this pid; `startMark` differs from that of an earlier process with the same pid. */
  process(pid: number): { readonly alive: boolean; readonly startMark?: string; readonly startedAtMs?: number }
  /** The filesystem type as `mount` shows it: ext4, nfs4, fuse.sshfs, … */
  filesystem(path: string): Promise<string | undefined>
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    // There is no /proc on this system, or the process is gone.
    if (error instanceof Error) return undefined
    throw error
  }
}

/** The field after the command in /proc/PID/stat: ticks between boot and the start of the process. */
const startField = 19
const ticksPerSecond = 100 // USER_HZ is 100 on every Linux that Node runs on

function startTicks(pid: number): string | undefined {
  const stat = readText(`/proc/${pid}/stat`)
  // The command, in parentheses, may contain spaces and parentheses.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[startField]
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

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

export const systemMachine: Machine = {
  host: hostname(),
  bootId: readText('/proc/sys/kernel/random/boot_id')?.trim(),
  pid: process.pid,
  uptimeMs: () => Number(process.hrtime.bigint() / 1_000_000n),
  process(pid) {
    if (!Number.isSafeInteger(pid) || pid <= 0 || !alive(pid)) return { alive: false }
    const ticks = startTicks(pid)
    if (ticks === undefined) return { alive: true }
    return { alive: true, startMark: ticks, ...defined({ startedAtMs: startedAtMs(ticks) }) }
  },
  async filesystem(path) {
    const [real, { type }] = [await realpath(path), await statfs(path)]
    const mounts = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '')
    return mountType(mounts, real) ?? magic[type]
  },
}
