import { execFileSync } from 'node:child_process'
import { rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import { beforeEach, describe, expect, it } from 'vitest'
import { loadSettings } from './load.js'
import { tempFolder } from '../../test/support/disk/temp-folder.js'

describe('settings', () => {
  let folder: string
  beforeEach(() => {
    folder = tempFolder('settings')
  })

  const load = (toml?: string, env: Record<string, string | undefined> = {}) => {
    if (toml !== undefined) writeFileSync(join(folder, 'bellwether.toml'), toml)
    return loadSettings({ folder, env })
  }
  const problems = (toml?: string, env?: Record<string, string>): string[] => {
    try {
      load(toml, env)
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      expect(error.code).toBe('invalid_settings')
      return error.message.split('\n').slice(1)
    }
    return []
  }
  const file = (line: number) => `${join(folder, 'bellwether.toml')}:${line}`

  it('[W4.1] loads every timing with its default without a file', () => {
    const { pmo, worker, view, sensor, server, database, nats, board } = load()
    expect(pmo).toEqual({
      watchdog_interval_seconds: 5,
      dispatched_retry_seconds: 10,
      dispatched_timeout_seconds: 30,
      pending_wakeup_seconds: 5,
      pending_wakeup_skip_seconds: 60,
      active_reap_seconds: 300,
      suspended_reap_seconds: 300,
      max_queue_seconds: 3600,
      turn_deadline_seconds: 3600,
      max_recursion_depth: 20,
      relay_poll_seconds: 0.1,
      retention_days: 30,
      trend_retention_days: 100,
    })
    expect(worker).toEqual({
      inbox_processing_timeout_seconds: 30,
      watchdog_interval_seconds: 5,
      suspend_timeout_seconds: 30,
      resume_lease_seconds: 30,
      beat_seconds: 5,
      poll_seconds: 5,
      max_deaths: 3,
      park_after_seconds: 15,
      max_hold_seconds: 21_600,
      concurrency: 16,
      blocked_max_seconds: 300,
      isolation: 'none',
      memory_max_mb: 1_024,
      sandbox: 'workspace',
      sandbox_missing: 'warn',
      hydrate_max_bytes: 4_194_304,
      transcript_max_bytes: 4_194_304,
    })
    expect(view).toEqual({
      session_timeout_seconds: 30,
      audit_interval_seconds: 43_200,
      sentinel_interval_seconds: 300,
      hot_file_threshold_seconds: 60,
      tombstone_ttl_seconds: 3600,
      live: true,
      persistent: '',
      strict: '',
      exclude: '.git,node_modules',
    })
    expect(sensor).toEqual({ poll_seconds: 2, stuck_seconds: 60 })
    expect(server).toEqual({
      host: '127.0.0.1',
      port: 7717,
      requests_per_second: 1_000,
      audit_retention_days: 90,
      admin_commands: false,
      hosts: '',
      trusted_proxies: '',
    })
    expect(database).toEqual({ pool_size: 10, statement_timeout_seconds: 30 })
    expect(nats).toEqual({})
    expect(board).toEqual({
      first_agent: 'coder',
      max_concurrent_spawns: 4,
      autopilot_interval_seconds: 5,
      claim_lease_seconds: 60,
      spawn_grace_seconds: 60,
      lock_check_seconds: 900,
      snapshot_check_seconds: 86_400,
      runs_retention_days: 30,
      view_path: '/',
    })
  })

  it('[W4.1] prefers the environment to the file and the file to the defaults', () => {
    const toml =
      '[worker]\nsuspend_timeout_seconds = 7\nbeat_seconds = 0.5\n[view]\nlive = true\n[nats]\nurl = "nats://a"\n'
    const settings = load(toml, {
      BELLWETHER__WORKER__SUSPEND_TIMEOUT_SECONDS: '5',
      BELLWETHER__VIEW__LIVE: 'false',
      BELLWETHER__NATS__URL: '',
      BELLWETHER__SERVER__PORT: ' 0 ',
      BELLWETHER__DATABASE__URL: 'postgres://x',
      BELLWETHER_HOME: 'not a setting',
    })
    expect(settings.worker).toMatchObject({ suspend_timeout_seconds: 5, beat_seconds: 0.5 })
    expect([settings.view.live, settings.nats.url, settings.server.port]).toEqual([false, undefined, 0])
    expect(settings.database.url).toBe('postgres://x')
  })

  it('reports a key outside its section with the section', () => {
    expect(problems('port = 80\n[server]\n')).toEqual([
      `${file(1)}: "port" is in no section; did you mean "port" in section [server]?`,
    ])
  })

  it('reports an unknown key with its file, line and the nearest key', () => {
    expect(problems('# comment\n\n[worker]\nbeat_seconds = 5\nbeat_secnods = 5\n')).toEqual([
      `${file(5)}: unknown setting worker.beat_secnods; did you mean worker.beat_seconds?`,
    ])
    expect(problems('[pmo]\nbeat_seconds = 5\n')).toEqual([
      `${file(2)}: unknown setting pmo.beat_seconds; did you mean worker.beat_seconds?`,
    ])
    expect(problems('[wroker]\nbeat_seconds = 5\n')).toEqual([
      `${file(1)}: unknown section [wroker]; did you mean [worker]?`,
    ])
    expect(problems('[notify]\nallow_private = true\n')[0]).toMatch(
      /unknown setting notify\.allow_private; \[notify\] has webhook_url, /,
    )
    expect(problems('[server]\nport = 1\n[server.tls]\ncert = "x"\n')[0]).toContain(`${file(3)}: unknown setting`)
    expect(problems('worker.beat_secs = 1\npmo = 5\nview = { live = 1 }\n')).toEqual([
      `${file(1)}: unknown setting worker.beat_secs; did you mean worker.beat_seconds?`,
      `${file(2)}: pmo must be a section: write [pmo] and its keys below it`,
      `${file(3)}: view.live must be true or false (got 1)`,
    ])
  })

  it('reports an unknown variable with the nearest variable', () => {
    expect(problems('', { BELLWETHER__WORKER__BEAT_SECOND: '5', BELLWETHER__X: '1', BELLWETHER__: '' })).toEqual([
      'environment: unknown setting BELLWETHER__WORKER__BEAT_SECOND; did you mean BELLWETHER__WORKER__BEAT_SECONDS?',
      expect.stringContaining('environment: unknown setting BELLWETHER__X;'),
      expect.stringContaining('environment: unknown setting BELLWETHER__;'),
    ])
  })

  it.each(['nan', 'inf', '-inf', '-1', '0', '"5"', 'true', '[5]', '1e300', '2020-01-01', '{ a = 1 }'])(
    'rejects %s as a number of seconds',
    (value) => {
      expect(problems(`[pmo]\n\nactive_reap_seconds = ${value}\n`)).toEqual([
        expect.stringContaining(`${file(3)}: pmo.active_reap_seconds must be a number from 0.01 to 604800 (got `),
      ])
    },
  )

  it.each(['NaN', 'Infinity', '-1', '0', '', 'five', '0x10', '5s', '1e999', '1_000', '5.5'])(
    'rejects %s from the environment as a count',
    (value) => {
      expect(problems('', { BELLWETHER__WORKER__CONCURRENCY: value })).toEqual([
        expect.stringContaining(
          'environment: BELLWETHER__WORKER__CONCURRENCY: worker.concurrency must be a whole number',
        ),
      ])
    },
  )

  it('reports all problems of the file and the environment at once', () => {
    const toml = '[pmo]\nactive_reap_seconds = -1\nactive = 2\n[worker]\nconcurrency = 1.5\n'
    const found = problems(toml, { BELLWETHER__VIEW__LIVE: 'maybe', BELLWETHER__PMO__NOPE: '1' })
    expect(found.map((text) => text.replace(folder, ''))).toHaveLength(5)
  })

  it('reports the line of invalid TOML and still checks the environment', () => {
    const found = problems('[pmo]\nactive_reap_seconds = \n', { BELLWETHER__VIEW__LIVE: 'maybe' })
    expect(found).toHaveLength(2)
    expect(found[0]).toContain(`${file(2)}: invalid TOML`)
  })

  it('omits the value of a URL from errors, because it may contain a password', () => {
    const found = problems('[database]\nurl = ["postgres://u:secret@h"]\n').join('\n')
    expect(found).toContain('database.url must be a string')
    expect(found).not.toContain('secret')
    const long = `postgres://u:secret@h/${'x'.repeat(5_000)}`
    expect(problems('', { BELLWETHER__DATABASE__URL: long }).join('\n')).not.toContain('secret')
  })

  it('rejects names that every object has', () => {
    expect(problems('[pmo]\nconstructor = 1\n"__proto__" = 1\n[toString]\nx = 1\n')).toHaveLength(3)
    expect(problems('', { BELLWETHER__CONSTRUCTOR__NAME: 'x', BELLWETHER__PMO__TOSTRING: 'x' })).toHaveLength(2)
  })

  it('reports a file that cannot be read', () => {
    const inside = join(folder, 'bellwether.toml')
    writeFileSync(inside, '')
    expect(() => loadSettings({ folder: inside, env: {} })).toThrow(
      expect.objectContaining({ code: 'settings_unreadable' }),
    )
  })
})

it('refuses a settings file that is a pipe or a device instead of waiting for it', () => {
  const folder = tempFolder('settings')
  symlinkSync('/dev/zero', join(folder, 'bellwether.toml'))
  expect(() => loadSettings({ folder, env: {} })).toThrow('is not a regular file')
  rmSync(join(folder, 'bellwether.toml'))
  execFileSync('mkfifo', [join(folder, 'bellwether.toml')])
  expect(() => loadSettings({ folder, env: {} })).toThrow('is not a regular file')
})
