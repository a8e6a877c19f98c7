/** A clock that two processes of one machine read alike: monotonic, counted from boot. For deadlines that one sets for the other. */
const nanosecondsPerMs = 1_000_000n

export function sharedMs(): number {
  return Number(process.hrtime.bigint() / nanosecondsPerMs)
}
