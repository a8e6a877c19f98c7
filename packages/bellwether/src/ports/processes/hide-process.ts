/**
 * Hides the environment and memory of this process from other processes of the same account (PR_SET_DUMPABLE), so that an agent cannot
 * read secrets in /proc. Root can still read them. Programs that this process starts are not hidden, but inherit no open files: Node
 * closes only the first 16 of those that its own parent left open, and a sandbox passes the others on.
 */
import { createRequire } from 'node:module'

const setDumpable = 4
// The same on all architectures.
const closeRange = 436
const [firstFile, lastFile, onExec] = [3, 0xffff_ffff, 4]

/** False if the system does not offer it. */
export function hideProcess(): boolean {
  if (process.platform !== 'linux') return false
  try {
    const koffi = createRequire(import.meta.url)('koffi') as {
      load(path: null): { func(text: string): (...args: number[]) => number }
    }
    const libc = koffi.load(null)
    libc.func('long syscall(long, uint, uint, int)')(closeRange, firstFile, lastFile, onExec)
    return libc.func('int prctl(int, ulong, ulong, ulong, ulong)')(setDumpable, 0, 0, 0, 0) === 0
  } catch {
    return false // koffi is not installed, or has no binaries for this machine
  }
}
