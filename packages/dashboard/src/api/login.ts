/**
 * Signs this tab in at its start: with the token of a one-time link, which is in the fragment of the URL and so reaches neither logs nor
 * other sites; with the response of the identity provider, if this tab started the sign-in; or with the session of another tab. A failure
 * leads to the sign-in page.
 */
import type { ResponseOf } from '@bellwether/protocol/http'
import { storage } from '../ports/storage.js'
import { ask, Problem } from './client.js'
import { session } from './session.js'

export async function signIn(): Promise<void> {
  if (location.pathname === '/login/callback') return finishSignIn(location.search)
  const token = /^#token=([\w-]{1,100})$/.exec(location.hash)?.[1]
  if (location.pathname !== '/login' || token === undefined) return session.join()
  // The token works once: it must not stay in the history.
  history.replaceState(null, '', '/')
  try {
    const { secret } = await ask('POST /login', { body: { token }, outside: true })
    session.enter({ secret })
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    session.refuse()
  }
  return session.join()
}

// The server's limit is for other clients; no provider sends more.
const responseMax = 16_384

export type SignInProvider = ResponseOf<'GET /login/provider'>['provider']

/** Null if the server has none, or cannot be asked: then the person signs in with a key. */
export async function readProvider(): Promise<SignInProvider> {
  try {
    return (await ask('GET /login/provider', { outside: true, expects: 'provider' })).provider
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    return null
  }
}

/** Goes to the identity provider, which sends this tab back to /login/callback. */
export async function startSignIn(origin: string): Promise<void> {
  // The provider returns to this address, and only pages of the same origin share the secret.
  if (location.origin !== origin) return location.assign(`${origin}/login`)
  const { url, secret } = await ask('POST /login/provider', { outside: true })
  storage.set('tab', 'sign-in', secret)
  location.assign(url)
}

async function finishSignIn(query: string): Promise<void> {
  const secret = storage.get('tab', 'sign-in') ?? ''
  storage.set('tab', 'sign-in', undefined)
  // The code works once: it must not stay in the history.
  history.replaceState(null, '', '/')
  try {
    const body = { response: query.slice(0, responseMax), secret }
    session.enter({ secret: (await ask('POST /login/callback', { body, outside: true })).secret })
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    session.refuse([error.message, error.hint].filter((text) => text !== undefined).join('. '))
  }
  return session.join()
}
