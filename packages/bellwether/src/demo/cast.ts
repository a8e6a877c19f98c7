/** Who plays in the demo: the agents by what they do, and the timings that make half a minute of what takes minutes. */
export const cast = {
  writers: ['writer-1', 'writer-2', 'writer-3', 'writer-4'],
  researchers: ['researcher-1', 'researcher-2', 'researcher-3'],
  pigeonKeeper: 'pigeon-keeper',
  marathon: 'marathon',
  sleeper: 'sleeper',
} as const

export const everyone: readonly string[] = [
  ...cast.writers,
  ...cast.researchers,
  cast.pigeonKeeper,
  cast.marathon,
  cast.sleeper,
]

export const tools = { lookUp: 'look-up', pigeonPost: 'pigeon-post' } as const

export const laps = 14

/** Short waits, so that what a watchdog does is seen while one watches. The rules are the ones of production. */
export const timings: Readonly<Record<string, string>> = {
  BELLWETHER__WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '4',
  BELLWETHER__WORKER__WATCHDOG_INTERVAL_SECONDS: '1',
  BELLWETHER__WORKER__SUSPEND_TIMEOUT_SECONDS: '4',
  BELLWETHER__WORKER__RESUME_LEASE_SECONDS: '4',
  BELLWETHER__WORKER__BEAT_SECONDS: '1',
  BELLWETHER__WORKER__POLL_SECONDS: '1',
  BELLWETHER__WORKER__MAX_ATTEMPTS: '3',
  BELLWETHER__WORKER__CONCURRENCY: '8',
  BELLWETHER__PMO__WATCHDOG_INTERVAL_SECONDS: '1',
  BELLWETHER__PMO__DISPATCHED_RETRY_SECONDS: '3',
  BELLWETHER__PMO__DISPATCHED_TIMEOUT_SECONDS: '15',
  BELLWETHER__PMO__PENDING_WAKEUP_SECONDS: '2',
  BELLWETHER__PMO__ACTIVE_REAP_SECONDS: '20',
  BELLWETHER__PMO__SUSPENDED_REAP_SECONDS: '20',
  BELLWETHER__PMO__TURN_DEADLINE_SECONDS: '60',
  BELLWETHER__NATS__URL: '',
  BELLWETHER__DATABASE__DIRECT_URL: '',
}
