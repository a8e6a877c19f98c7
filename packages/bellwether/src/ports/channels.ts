/**
 * The channels by which messages reach people: a webhook that gets JSON, one that gets the format of Slack, which Mattermost, Discord
 * (URL with /slack), Rocket.Chat and others understand, and e-mail. A channel sends one message or throws; the caller retries.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { onAbort } from '@bellwether/base'
import { shortened, Terminal } from '@bellwether/protocol'
import type { NoticeBody } from '@bellwether/protocol/http'
import type { SMTPTransportOptions } from 'nodemailer'
import { postJson, webhookUrl, type PostJson } from './webhook.js'

export interface Channel {
  /** Stored with each message: a message is sent once per name. */
  readonly name: string
  send(message: NoticeBody, signal: AbortSignal): Promise<void>
}

export interface ChannelSettings extends Partial<EmailSettings> {
  readonly webhook_url?: string | undefined
  readonly slack_webhook_url?: string | undefined
}

export function openChannels(notify: ChannelSettings, post: PostJson = postJson): readonly Channel[] {
  const { webhook_url: json, slack_webhook_url: slack, smtp_url: smtp, email_to: to = '' } = notify
  return [
    ...(json === undefined ? [] : [webhookChannel(webhookUrl(json, 'notify', 'webhook_url'), post)]),
    ...(slack === undefined ? [] : [slackChannel(webhookUrl(slack, 'notify', 'slack_webhook_url'), post)]),
    ...(smtp === undefined ? [] : [{ name: 'email', send: openEmail({ ...notify, smtp_url: smtp, email_to: to }) }]),
  ]
}

function webhookChannel(url: string, post: PostJson): Channel {
  return { name: 'webhook', send: (message, signal) => post(url, message, signal) }
}

function slackChannel(url: string, post: PostJson): Channel {
  return { name: 'slack', send: (message, signal) => post(url, { text: slackText(message) }, signal) }
}

/** The text in Slack's markup. Text of agents can neither mention people nor make links. */
function slackText({ text, link, deadline }: NoticeBody): string {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  const due = deadline === undefined ? '' : ` (answer by ${deadline})`
  return `${escaped}${due}${link === undefined ? '' : `\n<${link}|Open in Bellwether>`}`
}

/** The address of the dashboard in links, without a slash at its end. */
export function publicUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  if (/^https?:$/.test(URL.canParse(text) ? new URL(text).protocol : '')) return text.replace(/\/+$/, '')
  throw new Terminal(`Invalid public_url: ${JSON.stringify(text)} must be an http or https URL`, {
    code: 'bad_public_url',
    hint: 'Fix public_url in [server] of bellwether.toml.',
  })
}

interface EmailSettings {
  readonly smtp_url?: string | undefined
  readonly smtp_ca?: string | undefined
  readonly email_from?: string | undefined
  readonly email_to: string
}

/** A message as a mail program shows it. Text of agents is plain text. */
interface Email {
  readonly subject: string
  readonly text: string
}

// A server that is silent for longer is tried again later; the caller has a timeout of its own.
const silentMs = 10_000
const subjectMax = 120
const addressPattern = /^[^\s@,<>"]+@[^\s@,<>"]+$/

interface Mail {
  readonly from: string
  readonly to: readonly string[]
  readonly server: SMTPTransportOptions
}

type GivenSettings = EmailSettings & { readonly smtp_url: string }

/** Checks the settings at the start, before the first message needs them. */
export function readEmailSettings({
  smtp_url: url,
  smtp_ca: ca,
  email_from: from = '',
  email_to: list,
}: GivenSettings): Mail {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || !/^smtps?:$/.test(parsed.protocol) || parsed.hostname === '')
    throw wrong(
      'smtp_url',
      'must be smtp://HOST:587 or smtps://HOST:465',
      'smtp_url = "smtps://USER:PASSWORD@mail.example.com:465"',
    )
  const to = list.split(',').flatMap((one) => (one.trim() === '' ? [] : [one.trim()]))
  if (to.length === 0 || !to.every((one) => addressPattern.test(one)))
    throw wrong('email_to', 'must list e-mail addresses', 'email_to = "ann@example.com, bob@example.com"')
  if (!addressPattern.test(from))
    throw wrong('email_from', 'must be an e-mail address', 'email_from = "bellwether@example.com"')
  const secure = parsed.protocol === 'smtps:'
  const host = parsed.hostname.replace(/^\[|\]$/g, '')
  const user = decodeURIComponent(parsed.username)
  const server = {
    host,
    port: Number(parsed.port || (secure ? 465 : 587)),
    secure,
    requireTLS: !secure && !isLocal(host),
    ignoreTLS: !secure && isLocal(host),
    ...(user === '' ? {} : { auth: { user, pass: decodeURIComponent(parsed.password) } }),
    ...(ca === undefined ? {} : { tls: { ca: readFileSync(ca, 'utf8') } }),
    ...{ connectionTimeout: silentMs, greetingTimeout: silentMs, socketTimeout: silentMs, dnsTimeout: silentMs },
  }
  return { from, to, server }
}

/** One message per connection. A message that is sent again has the same Message-ID. The library is loaded with the first one. */
function openEmail(settings: GivenSettings) {
  const { from, to, server } = readEmailSettings(settings)
  return async (message: NoticeBody, signal: AbortSignal): Promise<void> => {
    const { createTransport } = await import('nodemailer')
    const transport = createTransport(server)
    onAbort(signal, () => transport.close())
    try {
      await transport.sendMail({ from, to: [...to], messageId: messageId(message.id, from), ...emailOf(message) })
    } finally {
      transport.close()
    }
  }
}

function emailOf({ text, link, deadline }: NoticeBody): Email {
  const [line = ''] = text.split('\n')
  const subject = shortened(line, subjectMax)
  const parts = [
    text,
    ...(deadline === undefined ? [] : [`Answer by ${deadline}`]),
    ...(link === undefined ? [] : [link]),
  ]
  return { subject: `[Bellwether] ${subject}`, text: `${parts.join('\n\n')}\n` }
}

const messageId = (id: string, from: string) =>
  `<${createHash('sha256').update(id).digest('hex').slice(0, 32)}@${from.slice(from.indexOf('@') + 1)}>`

const isLocal = (host: string) => host === 'localhost' || host === '::1' || host.startsWith('127.')

const wrong = (key: string, rule: string, example: string) =>
  new Terminal(`Invalid ${key}: it ${rule}`, {
    code: 'bad_email_settings',
    hint: `Fix ${key} in [notify] of bellwether.toml, for example ${example}.`,
  })
