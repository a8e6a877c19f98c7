/** The identity provider of the settings, `[oidc]`, with which people sign in. Checks the settings before the server starts. */
import { resolve } from 'node:path'
import type { Clock, Log, Random } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { ProviderSignIn } from '../../http/routes/browser-sessions.js'
import { readRules } from '../../http/sign-in/people.js'
import { openProviderLogins } from '../../http/sign-in/provider-logins.js'
import { openIdentityProvider } from '../../ports/identity/oidc.js'
import type { Settings } from '../../settings/schema.js'
import { isLoopback } from './listen.js'
import { readSettingFile } from './tls-files.js'

export interface SignInContext {
  /** File names in the settings are relative to it. */
  readonly folder: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
}

export function openSignIn(
  { oidc: settings, server }: Pick<Settings, 'oidc' | 'server'>,
  context: SignInContext,
): ProviderSignIn | undefined {
  const { issuer, client_id: clientId, groups_claim: groupsClaim } = settings
  const { public_url: publicUrl } = server
  if (issuer === undefined) return undefined
  if (clientId === undefined || publicUrl === undefined)
    throw invalid(
      `"oidc.issuer" is set, but "${clientId === undefined ? 'oidc.client_id' : 'server.public_url'}" is not`,
    )
  const { admins: admin, operators: operator, readers: reader } = settings
  const rules = readRules({ admin, operator, reader })
  if (rules.length === 0)
    throw invalid('"oidc.issuer" is set, but no one may sign in', 'set oidc.admins, oidc.operators or oidc.readers')
  const { origin, href } = safeUrl('server.public_url', publicUrl)
  if (href !== `${origin}/`)
    throw invalid('"server.public_url" must have no path, query or fragment, because people sign in there')
  const { clock, random, log } = context
  const provider = openIdentityProvider({
    issuer: safeUrl('oidc.issuer', issuer),
    clientId,
    clientSecret: secretOf(settings, context.folder),
    redirectUrl: new URL('/login/callback', origin),
    scopes: settings.scopes,
    wanted: [groupsClaim, 'email', 'email_verified', 'name'],
    clock,
    log,
  })
  return { logins: openProviderLogins({ provider, clock, random }), name: settings.name, origin, rules, groupsClaim }
}

/** Codes and sessions travel over it: plain HTTP is for this machine only. */
function safeUrl(key: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isLocal = url?.protocol === 'http:' && isLoopback(url.hostname.replace(/^\[(.*)\]$/, '$1'))
  if (url === undefined || (url.protocol !== 'https:' && !isLocal) || url.username !== '' || url.password !== '')
    throw invalid(`"${key}" must be an https URL, or an http URL of this machine`)
  return url
}

function secretOf({ client_secret: secret, client_secret_file: file }: Settings['oidc'], folder: string) {
  if (file === undefined) return secret
  if (secret !== undefined) throw invalid('"oidc.client_secret" and "oidc.client_secret_file" exclude each other')
  return readSettingFile(resolve(folder, file), 'oidc.client_secret_file').trim()
}

const invalid = (message: string, hint = 'correct [oidc] in bellwether.toml, or remove oidc.issuer') =>
  new InvalidInput(message, { code: 'invalid_settings', hint })
