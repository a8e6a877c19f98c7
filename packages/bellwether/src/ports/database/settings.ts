/**
 * How the embedded server is tuned: for one machine, many short transactions and small hot tables, and never at the
 * price of a commit (fsync, checksums and full page writes stay on). Written at every start into a file that
 * postgresql.conf includes, so that ALTER SYSTEM, which PostgreSQL reads last, still overrules it.
 */
export type Settings = Readonly<Record<string, string>>

export const tunedSettings: Settings = {
  listen_addresses: '127.0.0.1',
  max_connections: '200',
  shared_buffers: '128MB',
  huge_pages: 'off',
  password_encryption: 'scram-sha-256',
  timezone: 'UTC',
  log_timezone: 'UTC',
  lc_messages: 'C',

  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  wal_compression: 'pglz', // the packaged binaries have neither lz4 nor zstd
  max_wal_size: '2GB',
  min_wal_size: '128MB',
  checkpoint_timeout: '15min',

  // The inbox and heads are updated all day long: vacuum early and often, in small bites.
  autovacuum_naptime: '15s',
  autovacuum_vacuum_scale_factor: '0.05',
  autovacuum_analyze_scale_factor: '0.05',
  autovacuum_vacuum_cost_limit: '2000',

  // For sessions that are not our pool's (psql, migrations): a forgotten transaction holds back every event reader.
  idle_in_transaction_session_timeout: '60s',
  tcp_keepalives_idle: '30',

  random_page_cost: '1.1',
  jit: 'off', // costs more than it saves on statements of milliseconds

  logging_collector: 'off',
  log_min_messages: 'warning',
  log_checkpoints: 'off',
  log_line_prefix: '%m [%p] %a ',
  log_lock_waits: 'on',
}

export function confText(settings: Settings): string {
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value.replaceAll("'", "''")}'`)
  return ['# Written by Bellwether at every start. Use ALTER SYSTEM for changes of your own.', ...lines, ''].join('\n')
}
