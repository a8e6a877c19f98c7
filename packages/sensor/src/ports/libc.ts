/**
 * The C library through koffi: the few calls that Node does not offer (inotify, poll) or offers too slowly for a million
 * files (getdents64, statx). If koffi's binaries do not load, or on another system than Linux, callers fall back to Node.
 * Addresses are plain numbers, so passing one costs nothing.
 */
import { createRequire } from 'node:module'
import { endianness } from 'node:os'
import { environment, errorMessage } from '@bellwether/base'

type Call = (...values: readonly number[]) => number

export interface Libc {
  readonly openat: Call
  readonly close: Call
  readonly getdents: Call
  readonly statx: Call
  readonly read: Call
  readonly write: Call
  readonly poll: Call
  readonly eventfd: Call
  readonly inotifyInit: Call
  readonly inotifyAdd: Call
  readonly inotifyRemove: Call
  /** The error code of the last call of this thread. */
  errno(): number
  /** The address of a buffer. The buffer is never freed, because the garbage collector cannot see the address. */
  pin(bytes: Uint8Array): number
}

interface Koffi {
  load(path: null): { func(name: string, result: string, parameters: readonly string[]): Call }
  address(value: Uint8Array): bigint
  errno(): number
}

const signatures = {
  openat: ['openat', 'int', ['int', 'int64_t', 'int']],
  close: ['close', 'int', ['int']],
  getdents: ['getdents64', 'int64_t', ['int', 'int64_t', 'size_t']],
  statx: ['statx', 'int', ['int', 'int64_t', 'int', 'uint', 'int64_t']],
  read: ['read', 'int64_t', ['int', 'int64_t', 'size_t']],
  write: ['write', 'int64_t', ['int', 'int64_t', 'size_t']],
  poll: ['poll', 'int', ['int64_t', 'int64_t', 'int']],
  eventfd: ['eventfd', 'int', ['uint', 'int']],
  inotifyInit: ['inotify_init1', 'int', ['int']],
  inotifyAdd: ['inotify_add_watch', 'int', ['int', 'int64_t', 'uint32_t']],
  inotifyRemove: ['inotify_rm_watch', 'int', ['int', 'int']],
} as const

const pinned: Uint8Array[] = []
let opened: Libc | string | undefined

/** The library, or why it is not available. The first result is cached. */
export function openLibc(): Libc | string {
  opened ??= load()
  return opened
}

function load(): Libc | string {
  if (process.platform !== 'linux') return `inotify needs Linux (this is ${process.platform})`
  if (endianness() !== 'LE') return 'the native disk needs a little-endian machine'
  if (environment()['BELLWETHER_SENSOR_NATIVE'] === 'off') return 'disabled by BELLWETHER_SENSOR_NATIVE=off'
  try {
    const pin = (bytes: Uint8Array) => {
      pinned.push(bytes)
      return Number(koffi.address(bytes))
    }
    const koffi = createRequire(import.meta.url)('koffi') as Koffi
    const library = koffi.load(null)
    const calls = Object.fromEntries(
      Object.entries(signatures).map(([name, [symbol, result, parameters]]) => [
        name,
        library.func(symbol, result, parameters),
      ]),
    ) as Record<keyof typeof signatures, Call>
    return { ...calls, errno: () => koffi.errno(), pin }
  } catch (error) {
    return `koffi did not load: ${errorMessage(error)}`
  }
}
