/**
 * `npm run thorough` runs the same tests as `npm test` with full load, every variant and every crash point. It takes about three
 * times as long.
 */
export const thorough = process.env['BELLWETHER_THOROUGH'] === '1'

/**
 * The number of the day (UTC). Costly proofs alternate by day, so that `npm test` stays short. BELLWETHER_TEST_DAY=N chooses another
 * day, for example one whose run failed.
 */
export const today = Number(process.env['BELLWETHER_TEST_DAY'] ?? Math.floor(Date.now() / 86_400_000))

/**
 * The costly proofs of `npm test`: one of these groups is played each day. A group takes less than a minute of CPU time, and the IDs in its
 * titles have other proofs.
 */
const groups = ['chaos', 'worktrees', 'topology', 'servers'] as const

export const isToday = (group: (typeof groups)[number]) => thorough || groups[today % groups.length] === group
