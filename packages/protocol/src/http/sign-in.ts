/** Signing a browser in. These routes need no key, and are outside of the API's path. */
import { z } from '../deferred.js'
import type { Route } from './shapes.js'

const opened = z.object({ secret: z.string(), expires_in_seconds: z.number() })
const description =
  'Sets a cookie. Later requests of the page send it and `secret` as the header `x-bellwether-session`.'

export const signInRoutes = {
  'POST /login': {
    summary: 'Sign a browser in with the token of a one-time link',
    description,
    outside: true,
    body: z.strictObject({ token: z.string().max(100) }),
    responses: { 200: opened },
  },
  'GET /login/provider': {
    summary: 'Describe the identity provider with which people sign in',
    outside: true,
    responses: {
      200: z.object({
        provider: z
          .object({
            name: z.string(),
            origin: z.string().describe('the address of this server at which a sign-in must start'),
          })
          .nullable(),
      }),
    },
  },
  'POST /login/provider': {
    summary: 'Start a sign-in with the identity provider',
    description: 'The page keeps `secret` and opens `url`. The provider sends the browser back to `/login/callback`.',
    outside: true,
    responses: { 200: z.object({ url: z.string(), secret: z.string() }) },
  },
  'POST /login/callback': {
    summary: 'Finish a sign-in with the identity provider',
    description,
    outside: true,
    body: z.strictObject({
      response: z.string().max(16_384).describe('the query of the URL to which the provider sent the browser'),
      secret: z.string().max(100),
    }),
    responses: { 200: opened },
  },
} as const satisfies Record<string, Route>
