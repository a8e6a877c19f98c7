/** TLS to PostgreSQL and NATS: real servers, with certificates that the test makes. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { natsBell } from '../../src/ports/bell/nats.js'
import { openDedicatedClient } from '../../src/ports/connections/postgres.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { natsTls } from '../../src/runtime/parts/tls-files.js'
import { makeAuthority, type Certificate } from '../support/servers/certificates.js'
import { startNats, type NatsServer } from '../support/nats.js'
import { recordedLog } from '../support/recorded-log.js'
import { until } from '../support/until.js'

const folder = mkdtempSync(join(tmpdir(), 'bw-tls-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const authority = makeAuthority(folder, 'authority')
const other = makeAuthority(folder, 'other')
const local = authority.sign('local', 'DNS:localhost,IP:127.0.0.1')
const elsewhere = authority.sign('elsewhere', 'DNS:db.example')

describe('PostgreSQL', () => {
  // The shared cluster: connections of other tests do not ask for TLS and are not affected.
  const url = inject('postgresUrl')
  const admin = new pg.Client({ connectionString: url })
  const settings = ['ssl', 'ssl_cert_file', 'ssl_key_file']

  /** The server reads its files from its own folder. */
  async function serve({ cert, key }: Certificate): Promise<void> {
    const [{ data_directory: data }] = (await admin.query('show data_directory')).rows as [{ data_directory: string }]
    for (const [file, source] of [
      ['test-tls.crt', cert],
      ['test-tls.key', key],
    ] as const) {
      const lines = pg.escapeLiteral(readFileSync(source, 'utf8').trimEnd())
      const program = pg.escapeLiteral(`umask 077; cat > '${data}/${file}'`)
      await admin.query(`copy (select unnest(string_to_array(${lines}, E'\n'))) to program ${program}`)
    }
    for (const [name, value] of [
      ['ssl_cert_file', 'test-tls.crt'],
      ['ssl_key_file', 'test-tls.key'],
      ['ssl', 'on'],
    ] as const)
      await admin.query(`alter system set ${name} = '${value}'`)
    await reload('on')
  }

  /** New connections get the settings: `admin` may read them before the postmaster has. */
  async function reload(ssl: 'on' | 'off'): Promise<void> {
    const [{ at: before }] = (await admin.query('select pg_conf_load_time() as at')).rows as [{ at: Date }]
    await admin.query('select pg_reload_conf()')
    await until('the settings are loaded', async () => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      const { rows } = await client.query(`select pg_conf_load_time() > $1 and current_setting('ssl') = $2 as is`, [
        before,
        ssl,
      ])
      await client.end()
      return (rows as [{ is: boolean }])[0].is || undefined
    })
  }

  function secure(parameters: Readonly<Record<string, string>>, host = 'localhost'): string {
    const changed = new URL(url)
    changed.hostname = host
    for (const [name, value] of Object.entries(parameters)) changed.searchParams.set(name, value)
    return changed.href
  }
  const verified = { sslmode: 'verify-full', sslrootcert: authority.cert }
  const open = (address: string) => openDatabase({ url: address, poolSize: 1 })
  const isEncrypted = { text: 'select ssl from pg_stat_ssl where pid = pg_backend_pid()' }

  beforeAll(async () => {
    await admin.connect()
    await serve(local)
  })
  afterAll(async () => {
    for (const name of settings) await admin.query(`alter system reset ${name}`)
    await reload('off')
    await admin.end()
  })

  it.each(['localhost', '127.0.0.1'])(
    'PostgreSQL is used over TLS if its certificate names %s, also for LISTEN',
    async (host) => {
      const db = await open(secure(verified, host))
      expect(await db.query(isEncrypted)).toEqual([{ ssl: true }])
      await db.close()
      const listener = await openDedicatedClient(secure(verified, host), 'test')
      await listener.query(
        `do $$ begin if not (select ssl from pg_stat_ssl where pid = pg_backend_pid()) then raise 'no TLS'; end if; end $$`,
      )
      await listener.close()
    },
  )

  it('PostgreSQL is refused if another authority signed its certificate, or no authority is known', async () => {
    for (const parameters of [{ ...verified, sslrootcert: other.cert }, { sslmode: 'verify-full' }])
      await expect(open(secure(parameters))).rejects.toMatchObject({
        code: 'database_tls',
        message: expect.stringMatching(/^Cannot open a TLS connection to the database: .*certificate/),
        hint: expect.stringContaining('sslrootcert'),
      })
  })

  it('PostgreSQL is refused before it sees the password if its certificate names another host', async () => {
    await serve(elsewhere)
    try {
      const wrong = secure(verified).replace(/:[^:@]*@/, ':wrong-password@')
      for (const host of ['localhost', '127.0.0.1'])
        await expect(open(wrong.replace('localhost', host))).rejects.toMatchObject({
          code: 'database_tls',
          message: expect.stringContaining('does not match certificate'),
        })
    } finally {
      await serve(local)
    }
  })

  it('names the file that cannot be read', async () => {
    await expect(open(secure({ ...verified, sslrootcert: '/missing.pem' }))).rejects.toMatchObject({
      code: 'cannot_read_file',
      message: expect.stringContaining('/missing.pem'),
    })
  })

  it('PostgreSQL is refused without TLS', async () => {
    for (const name of settings) await admin.query(`alter system reset ${name}`)
    await reload('off')
    await expect(open(secure(verified))).rejects.toMatchObject({
      code: 'database_tls',
      message: expect.stringContaining('does not support SSL'),
    })
  })
})

describe('NATS', () => {
  const client = authority.sign('client', 'DNS:client')
  const files = { tls_ca: authority.cert, tls_certificate: client.cert, tls_key: client.key }
  const tlsFlags = ({ cert, key }: Certificate) => ['--tls', '--tlscert', cert, '--tlskey', key]
  const servers: NatsServer[] = []
  afterAll(() => Promise.all(servers.map((server) => server.stop())))

  async function start(flags: readonly string[]): Promise<NatsServer> {
    const server = await startNats({ jetstream: false, flags })
    servers.push(server)
    return server
  }

  /** Whether a bell rings over the server; else the first reason in the log. */
  async function attempt(url: string, settings: Parameters<typeof natsTls>[0]): Promise<string> {
    const { log, lines } = recordedLog()
    const bell = natsBell({ servers: url, tls: natsTls(settings), log, clock: systemClock, random: systemRandom })
    try {
      return await until('it is connected or refused', async () => {
        if (bell.status().connected) return 'connected'
        const line = lines.find(({ fields }) => fields['err'] instanceof Error)
        return line && (line.fields['err'] as Error).message
      })
    } finally {
      await bell.close()
    }
  }

  it('NATS is used over TLS with the authority and the client certificate of the settings, and refused otherwise', async () => {
    const { port } = await start([...tlsFlags(local), '--tlsverify', '--tlscacert', authority.cert])
    for (const host of [`tls://localhost:${port}`, `nats://127.0.0.1:${port}`])
      expect([host, await attempt(host, files)]).toEqual([host, 'connected'])
    const url = `tls://localhost:${port}`
    expect(await attempt(url, { ...files, tls_ca: other.cert })).toMatch(/certificate/)
    expect(await attempt(url, {})).toMatch(/certificate/)
    // The server asks for a certificate of the client.
    expect(await attempt(url, { tls_ca: authority.cert })).not.toBe('connected')
    const forged = other.sign('forged', 'DNS:client')
    const stolen = { ...files, tls_certificate: forged.cert, tls_key: forged.key }
    expect(await attempt(url, stolen)).not.toBe('connected')
  })

  it('NATS is refused if its certificate names another host', async () => {
    const { port } = await start(tlsFlags(elsewhere))
    for (const host of ['localhost', '127.0.0.1'])
      expect(await attempt(`nats://${host}:${port}`, { tls_ca: authority.cert })).toMatch(/does not match certificate/)
  })

  it('NATS is refused without TLS if the settings ask for it', async () => {
    const { port } = await start([])
    expect(await attempt(`nats://localhost:${port}`, {})).toBe('connected')
    expect(await attempt(`tls://localhost:${port}`, {})).not.toBe('connected')
    expect(await attempt(`nats://localhost:${port}`, { tls_ca: authority.cert })).not.toBe('connected')
  })

  it('names the setting of a file that cannot be read or is missing', () => {
    expect(() => natsTls({ tls_ca: '/missing.pem' })).toThrow('Cannot read /missing.pem')
    expect(() => natsTls({ tls_key: client.key })).toThrow('must be set together')
  })
})
