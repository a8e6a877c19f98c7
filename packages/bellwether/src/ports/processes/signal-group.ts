/** Ends a process group that an earlier process of ours has started. What may be ended is for the caller to know. */
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
