/** Signals a process group. The caller makes sure that the group is its own. Used by repair for groups of earlier processes. */
export function signalGroup(leader: number, signal: 'SIGTERM' | 'SIGKILL'): 'signalled' | 'gone' {
  if (!Number.isSafeInteger(leader) || leader <= 1) return 'gone'
  try {
    process.kill(-leader, signal)
    return 'signalled'
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ESRCH' || error.code === 'EPERM')) return 'gone'
    throw error
  }
}
