/**
 * Sign-ins with the identity provider that wait for the browser to come back. A sign-in ends in the tab that started it: the page keeps a
 * secret in sessionStorage, which pages of other sites and other ports do not have. Each one works once, within ten minutes.
 */
import type { Clock, Random } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { hashOf } from '../auth.js'
import type { Claims, IdentityProvider, ProviderLogin } from '../../ports/identity/oidc.js'

export interface ProviderLoginsOptions {
  readonly provider: IdentityProvider
  readonly clock: Clock
  readonly random: Random
}

export interface ProviderLogins {
  start(): Promise<{ readonly url: string; readonly secret: string }>
  /** The claims of the person. `response` is the query of the URL to which the provider sent the browser. */
  finish(response: string, secret: string): Promise<Claims>
  /** How many sign-ins wait. */
  readonly pending: number
}

/** As long as a one-time link. */
const loginMs = 600_000
// About 3 MB. The rate of sign-ins lets one address start some 650 within ten minutes. The oldest is dropped first.
const pendingMax = 5_000

interface Pending {
  readonly login: ProviderLogin
  readonly secretHash: string
  readonly endsMs: number
}

export function openProviderLogins({ provider, clock, random }: ProviderLoginsOptions): ProviderLogins {
  /** By state, oldest first. */
  const pending = new Map<string, Pending>()

  function dropOld(): void {
    for (const [state, { endsMs }] of pending) {
      if (endsMs > clock.monotonicMs() && pending.size < pendingMax) return
      pending.delete(state)
    }
  }

  /** Removes the sign-in: it works once. Without its secret it stays, so that no one else can end it. */
  function take(response: URLSearchParams, secret: string): ProviderLogin {
    const [state = '', ...more] = response.getAll('state')
    const found = pending.get(state)
    // Hashes are compared, so that timing reveals nothing about a secret.
    if (found === undefined || more.length > 0 || found.secretHash !== hashOf(secret)) throw notStartedHere()
    pending.delete(state)
    if (clock.monotonicMs() >= found.endsMs) throw notStartedHere()
    return found.login
  }

  return {
    get pending() {
      return pending.size
    },
    async start() {
      const login = await provider.start()
      const secret = Buffer.from(random.bytes(32)).toString('base64url')
      dropOld()
      pending.set(login.state, { login, secretHash: hashOf(secret), endsMs: clock.monotonicMs() + loginMs })
      return { url: login.url, secret }
    },
    async finish(response, secret) {
      const parameters = new URLSearchParams(response)
      const login = take(parameters, secret)
      const error = parameters.get('error')
      if (error === null) return provider.finish(login, response)
      throw new Terminal(`The identity provider refused this sign-in (${knownError(error)})`, {
        code: 'unauthorized',
        hint: 'start the sign-in again, or ask the administrators of the provider',
      })
    },
  }
}

// The text of another party appears only if it looks like a code.
const knownError = (error: string) => (/^[a-z_]{1,40}$/.test(error) ? error : 'unknown error')

const notStartedHere = () =>
  new Terminal('This sign-in was not started in this tab, was used, or has expired', {
    code: 'unauthorized',
    hint: 'start the sign-in again',
  })
