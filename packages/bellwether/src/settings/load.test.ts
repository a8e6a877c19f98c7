import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadSettings } from './load.js'

describe('settings', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'bellwether-settings-'))
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

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

  it('has every timing of W4.1 with its default when there is no file [W4.1]', () => {
    const { pmo, worker, view, server, database, nats, board } = load()
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
      retention_days: 30,
    })
    expect(worker).toEqual({
      inbox_processing_timeout_seconds: 30,
      watchdog_interval_seconds: 5,
      suspend_timeout_seconds: 30,
      resume_lease_seconds: 30,
      beat_seconds: 5,
      poll_seconds: 5,
      max_attempts: 3,
      concurrency: 16,
    })
    expect(view).toEqual({
      session_timeout_seconds: 30,
      audit_interval_seconds: 43_200,
      sentinel_interval_seconds: 300,
      hot_file_threshold_seconds: 60,
      tombstone_ttl_seconds: 3600,
      live: true,
      exclude: '.git,node_modules',
    })
    expect(server).toEqual({ host: '127.0.0.1', port: 7717, requests_per_second: 1_000, audit_retention_days: 90 })
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

  it('reads the file, and the environment over the file [W4.1]', () => {
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

  it('names file, line and the nearest key for an unknown one', () => {
    expect(problems('# comment\n\n[worker]\nbeat_seconds = 5\nbeat_secnods = 5\n')).toEqual([
      `${file(5)}: there is no setting worker.beat_secnods; did you mean worker.beat_seconds?`,
    ])
    expect(problems('[pmo]\nbeat_seconds = 5\n')).toEqual([
      `${file(2)}: there is no setting pmo.beat_seconds; did you mean worker.beat_seconds?`,
    ])
    expect(problems('[wroker]\nbeat_seconds = 5\n')).toEqual([
      `${file(1)}: there is no section [wroker]; did you mean [worker]?`,
    ])
    expect(problems('[server]\nport = 1\n[server.tls]\ncert = "x"\n')[0]).toContain(`${file(3)}: there is no setting`)
    expect(problems('worker.beat_secs = 1\npmo = 5\nview = { live = 1 }\n')).toEqual([
      `${file(1)}: there is no setting worker.beat_secs; did you mean worker.beat_seconds?`,
      `${file(2)}: pmo is a section: write [pmo] and its keys below it`,
      `${file(3)}: view.live must be true or false, but is 1`,
    ])
  })

  it('names the variable and the nearest one for an unknown variable', () => {
    expect(problems('', { BELLWETHER__WORKER__BEAT_SECOND: '5', BELLWETHER__X: '1', BELLWETHER__: '' })).toEqual([
      'environment: BELLWETHER__WORKER__BEAT_SECOND is not a setting; did you mean BELLWETHER__WORKER__BEAT_SECONDS?',
      expect.stringContaining('environment: BELLWETHER__X is not a setting'),
      expect.stringContaining('environment: BELLWETHER__ is not a setting'),
    ])
  })

  it.each(['nan', 'inf', '-inf', '-1', '0', '"5"', 'true', '[5]', '1e300', '2020-01-01', '{ a = 1 }'])(
    'refuses %s as a number of seconds',
    (value) => {
      expect(problems(`[pmo]\n\nactive_reap_seconds = ${value}\n`)).toEqual([
        expect.stringContaining(`${file(3)}: pmo.active_reap_seconds must be a number from 0.01 to 604800, but is`),
      ])
    },
  )

  it.each(['NaN', 'Infinity', '-1', '0', '', 'five', '0x10', '5s', '1e999', '1_000', '5.5'])(
    'refuses %s from the environment as a count',
    (value) => {
      expect(problems('', { BELLWETHER__WORKER__CONCURRENCY: value })).toEqual([
        expect.stringContaining(
          'environment: BELLWETHER__WORKER__CONCURRENCY: worker.concurrency must be a whole number',
        ),
      ])
    },
  )

  it('reports every problem at once, of the file and of the environment', () => {
    const toml = '[pmo]\nactive_reap_seconds = -1\nactive = 2\n[worker]\nconcurrency = 1.5\n'
    const found = problems(toml, { BELLWETHER__VIEW__LIVE: 'maybe', BELLWETHER__PMO__NOPE: '1' })
    expect(found.map((text) => text.replace(folder, ''))).toHaveLength(5)
  })

  it('says where the file is not TOML, and still checks the environment', () => {
    const found = problems('[pmo]\nactive_reap_seconds = \n', { BELLWETHER__VIEW__LIVE: 'maybe' })
    expect(found).toHaveLength(2)
    expect(found[0]).toContain(`${file(2)}: this is not TOML`)
  })

  it('does not repeat the value of a URL, which may hold a password', () => {
    const found = problems('[database]\nurl = ["postgres://u:secret@h"]\n').join('\n')
    expect(found).toContain('database.url must be a string')
    expect(found).not.toContain('secret')
    const long = `postgres://u:secret@h/${'x'.repeat(5_000)}`
    expect(problems('', { BELLWETHER__DATABASE__URL: long }).join('\n')).not.toContain('secret')
  })

  it('is not fooled by names that every object has', () => {
    expect(problems('[pmo]\nconstructor = 1\n"__proto__" = 1\n[toString]\nx = 1\n')).toHaveLength(3)
    expect(problems('', { BELLWETHER__CONSTRUCTOR__NAME: 'x', BELLWETHER__PMO__TOSTRING: 'x' })).toHaveLength(2)
  })

  it('says so when the file cannot be read', () => {
    const inside = join(folder, 'bellwether.toml')
    writeFileSync(inside, '')
    expect(() => loadSettings({ folder: inside, env: {} })).toThrow(
      expect.objectContaining({ code: 'settings_unreadable' }),
    )
  })
})
