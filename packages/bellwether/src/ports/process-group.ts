/** Ends a process group that an earlier process of ours has started. What may be ended is for the caller to know. */
export function endGroup(leader: number, signal: 'SIGTERM' | 'SIGKILL'): 'told' | 'gone' {
  if (!Number.isSafeInteger(leader) || leader <= 1) return 'gone'
  try {
    process.kill(-leader, signal)
    return 'told'
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ESRCH' || error.code === 'EPERM')) return 'gone'
    throw error
  }
}
