/**
 * Selects the directories to watch: those that changed last. Pure. The clocks of file server and host may differ, so the 99th
 * percentile of all mtimes estimates the file server's time; a few files dated in the future cannot move it.
 */
export interface DirectoryTime {
  readonly path: string
  /** Seconds since the epoch, on the file server's clock. */
  readonly mtime: number
}

export interface RankedDirectory {
  readonly path: string
  /** When it last changed, on this host's clock and never in the future. */
  readonly at: number
}

const percentile = 0.99

/** Seconds that the file server's clock is ahead of this host's; negative if it is behind or if no directory is recent. */
export function driftOf(times: readonly number[], nowSeconds: number): number {
  if (times.length === 0) return 0
  const sorted = Float64Array.from(times).sort()
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * percentile) - 1)]! - nowSeconds
}

/** The newest `limit` directories, oldest first: the order in which a full watch set evicts them. */
export function hottest(
  directories: readonly DirectoryTime[],
  limit: number,
  drift: number,
  nowSeconds: number,
): RankedDirectory[] {
  const stamped = directories.map(({ path, mtime }) => ({ path, at: Math.min(mtime - drift, nowSeconds) }))
  // Among equals the shorter path first: the removal of a directory is seen through its parent.
  stamped.sort((a, b) => b.at - a.at || a.path.length - b.path.length || (a.path < b.path ? -1 : 1))
  return stamped.slice(0, limit).toReversed()
}

/** The requested number of watches (default 50,000), at most 80 % of the kernel's limit for this user. */
export function watchLimit(wanted: number | undefined, kernelMax: number): number {
  return Math.max(1, Math.min(wanted ?? 50_000, Math.floor(kernelMax * 0.8)))
}
