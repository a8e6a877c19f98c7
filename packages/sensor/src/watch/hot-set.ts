/**
 * Which directories are worth a watch: those that changed last. Pure. File servers and hosts disagree about the time, so
 * the newest of the files says what time it is over there: the 99th percentile of all times, which a handful of files
 * from the future cannot move.
 */
export interface DirectoryTime {
  readonly path: string
  /** Seconds since the epoch, on the file server's clock. */
  readonly mtime: number
}

export interface Stamped {
  readonly path: string
  /** When it last changed, on this host's clock; never in the future. */
  readonly at: number
}

const percentile = 0.99

/** How far the file server's clock is ahead of ours, in seconds; negative when it is behind, or when nothing is new. */
export function driftOf(times: readonly number[], nowSeconds: number): number {
  if (times.length === 0) return 0
  const sorted = Float64Array.from(times).sort()
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * percentile) - 1)]! - nowSeconds
}

/** The newest `limit` directories, oldest first: the order in which a full set gives them up. */
export function hottest(
  directories: readonly DirectoryTime[],
  limit: number,
  drift: number,
  nowSeconds: number,
): Stamped[] {
  const stamped = directories.map(({ path, mtime }) => ({ path, at: Math.min(mtime - drift, nowSeconds) }))
  // The shorter path first among equals: without its parent a directory's own end goes unseen.
  stamped.sort((a, b) => b.at - a.at || a.path.length - b.path.length || (a.path < b.path ? -1 : 1))
  return stamped.slice(0, limit).toReversed()
}

/** The default size: what people asked for, else 50,000, and never more than 80 % of what the kernel allows this user. */
export function watchLimit(wanted: number | undefined, kernelMax: number): number {
  return Math.max(1, Math.min(wanted ?? 50_000, Math.floor(kernelMax * 0.8)))
}
