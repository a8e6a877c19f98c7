/**
 * The settings of the embedded server: tuned for one machine with many short transactions and small hot tables, without giving
 * up durability (fsync, checksums and full page writes stay on). Every start writes them to a file that postgresql.conf
 * includes; ALTER SYSTEM, which PostgreSQL reads last, overrides them.
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
  wal_compression: 'pglz', // the packaged binaries support neither lz4 nor zstd
  max_wal_size: '2GB',
  min_wal_size: '128MB',
  checkpoint_timeout: '15min',

  // The inbox and heads are updated constantly: vacuum early and often, in small steps.
  autovacuum_naptime: '15s',
  autovacuum_vacuum_scale_factor: '0.05',
  autovacuum_analyze_scale_factor: '0.05',
  autovacuum_vacuum_cost_limit: '2000',

  // For sessions outside our pool (psql, migrations): a forgotten transaction holds up every event reader.
  idle_in_transaction_session_timeout: '60s',
  tcp_keepalives_idle: '30',

  random_page_cost: '1.1',
  jit: 'off', // costs more than it saves on short statements

  logging_collector: 'off',
  log_min_messages: 'warning',
  log_checkpoints: 'off',
  log_line_prefix: '%m [%p] %a ',
  log_lock_waits: 'on',
}

export function confText(settings: Settings): string {
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value.replaceAll("'", "''")}'`)
  return ['# Written by Bellwether at every start. Use ALTER SYSTEM for your own changes.', ...lines, ''].join('\n')
}
