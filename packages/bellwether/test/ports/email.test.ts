/** E-mail to people: a real SMTP server with TLS and authentication, failures, settings, quiet hours. */
import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { systemClock, systemRandom } from '@bellwether/base'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { expect, it, onTestFinished } from 'vitest'
import { putNotices } from '../../src/kernel/verbs/notices.js'
import { openNotifier } from '../../src/pmo/notifier.js'
import { openChannels, readEmailSettings } from '../../src/ports/channels.js'
import { openQuietHours } from '../../src/ports/quiet-hours.js'
import { handClock } from '../support/hand-clock.js'
import { testKernel } from '../support/kernel.js'
import { testFolder } from '../support/postgres.js'
import { quietLog } from '../support/quiet-log.js'
import { makeAuthority } from '../support/servers/certificates.js'

interface Mail {
  readonly to: readonly string[]
  readonly text: string
  readonly secure: boolean
}

/** A mail server on a free port of this machine. */
async function mailServer(options: SMTPServerOptions = {}) {
  const mails: Mail[] = []
  const refusals: string[] = []
  const server = new SMTPServer({
    authOptional: true,
    ...options,
    onAuth: ({ username, password }, _session, done) =>
      username === 'bell' && password === 'p@ss' ? done(null, { user: username }) : done(new Error('Wrong password')),
    onData: (stream, session, done) => {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        const refusal = refusals.shift()
        if (refusal !== undefined) return done(Object.assign(new Error(refusal), { responseCode: 451 }))
        const to = session.envelope.rcptTo.map(({ address }) => address)
        mails.push({ to, text: Buffer.concat(chunks).toString(), secure: session.secure })
        return done()
      })
    },
  })
  // A client that refuses the certificate ends the connection.
  server.on('error', () => undefined)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())))
  return { mails, refusals, port: (server.server.address() as { port: number }).port }
}

const people = { email_from: 'bell@example.com', email_to: 'ann@example.com, bob@example.com' }
const notice = {
  id: 'question p 1',
  kind: 'question',
  text: 'coder asks: Ship\nit?',
  at: '2027-01-01T00:00:00.000Z',
  link: 'https://bw.example/p/p/needs-you?question=1',
}
const everyone = [['ann@example.com', 'bob@example.com'], true]
const { signal } = new AbortController()

it('sends a message over TLS with authentication, with its link, and repeats it with the same Message-ID', async () => {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const authority = makeAuthority(folder, 'authority')
  const { cert, key } = authority.sign('mail', 'DNS:localhost,IP:127.0.0.1')
  const tls = { secure: true, cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
  const { mails, port } = await mailServer({ ...tls, authOptional: false })
  const smtp_url = `smtps://bell:${encodeURIComponent('p@ss')}@localhost:${port}`
  const [channel] = openChannels({ ...people, smtp_url, smtp_ca: authority.cert })
  await channel!.send(notice, signal)
  await channel!.send(notice, signal)
  expect(mails.map(({ to, secure }) => [to, secure])).toEqual([everyone, everyone])
  expect(mails[0]!.text).toContain('Subject: [Bellwether] coder asks: Ship\r\n')
  expect(mails[0]!.text.replaceAll(/=\r\n/g, '').replaceAll('=3D', '=')).toContain(notice.link)
  const ids = mails.map(({ text }) => /^Message-ID: (.+)$/im.exec(text)?.[1])
  expect(ids[0]).toMatch(/^<\w{32}@example\.com>/)
  expect(ids[1]).toBe(ids[0])
  const [untrusted] = openChannels({ ...people, smtp_url })
  await expect(untrusted!.send(notice, signal)).rejects.toThrow(/certificate/)
  const [wrong] = openChannels({ ...people, smtp_url: `smtps://bell:no@localhost:${port}`, smtp_ca: authority.cert })
  await expect(wrong!.send(notice, signal)).rejects.toThrow('Wrong password')
  expect(mails).toHaveLength(2)
})

it('retries a message that the mail server refuses, sends it once, and holds others back in quiet hours', async () => {
  const t = await testKernel()
  onTestFinished(() => t.drop())
  const { mails, refusals, port } = await mailServer({ disabledCommands: ['STARTTLS'] })
  const clock = handClock(Date.parse('2027-01-01T23:00:00Z'))
  const quiet = openQuietHours({ quiet_hours: '22:00-07:00', quiet_time_zone: 'UTC', urgent_kinds: 'escalated' })
  const channels = openChannels({ ...people, smtp_url: `smtp://127.0.0.1:${port}` })
  const dashboard = () => 'https://bw.example'
  const ports = {
    db: t.db,
    channels,
    dashboard,
    quiet,
    random: systemRandom,
    log: quietLog,
    signal,
    onUnsent: () => undefined,
  }
  // The timeout of a call needs a clock that runs.
  const running = { ...systemClock, wallMs: () => clock.wallMs() }
  const pmos = [openNotifier({ ...ports, clock: running }), openNotifier({ ...ports, clock: running })]
  const step = () => Promise.all(pmos.map((pmo) => pmo.step()))
  const put = (noticeId: string, kind: string) =>
    putNotices(t.db, [{ noticeId, kind, content: { text: noticeId } }], ['email'])
  await put('later', 'review')
  await put('now', 'escalated')
  await put('now', 'escalated')
  refusals.push('4.3.0 busy')
  await step()
  expect(mails).toEqual([])
  await t.advance(10)
  await step()
  expect(mails.map(({ text }) => /Subject: \[Bellwether\] (\w+)/.exec(text)?.[1])).toEqual(['now'])
  await clock.advance(8 * 3_600_000)
  await step()
  await step()
  expect(mails.map(({ text }) => /Subject: \[Bellwether\] (\w+)/.exec(text)?.[1])).toEqual(['now', 'later'])
})

it('says that a mail server does not accept connections', async () => {
  const [channel] = openChannels({ ...people, smtp_url: 'smtp://127.0.0.1:1' })
  await expect(channel!.send(notice, signal)).rejects.toThrow(/ECONNREFUSED/)
})

it('requires STARTTLS of a mail server on another machine, and names the setting that is invalid', () => {
  expect(readEmailSettings({ ...people, smtp_url: 'smtp://mail.example.com' }).server).toMatchObject({
    ...{ host: 'mail.example.com', port: 587, secure: false, requireTLS: true, ignoreTLS: false },
  })
  expect(readEmailSettings({ ...people, smtp_url: 'smtps://u:p%40@h' }).server).toMatchObject({
    ...{ port: 465, secure: true, auth: { user: 'u', pass: 'p@' } },
  })
  for (const [key, settings] of [
    ['smtp_url', { ...people, smtp_url: 'https://mail.example.com' }],
    ['email_to', { ...people, smtp_url: 'smtp://h', email_to: 'ann' }],
    ['email_from', { smtp_url: 'smtp://h', email_to: 'a@b' }],
  ] as const)
    expect(() => readEmailSettings(settings)).toThrow(`Invalid ${key}: it must`)
})
