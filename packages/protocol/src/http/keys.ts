/** API keys, browser sessions and the audit log. */
import { z } from '../deferred.js'
import { keyRoles } from '../vocabulary.js'
import { id, limit, list, numberCursor, page, targetsMax, text, time, token, type Route } from './shapes.js'

const role = z.enum(keyRoles)
const newSecret = z.object({ key_id: z.string(), key: z.string().describe('shown only in this response') })
const oneKey = z.object({ key: id })

const keyLine = z.object({
  key_id: z.string(),
  name: z.string(),
  role,
  view_name: z.string().nullable(),
  project_id: z.string().nullable(),
  targets: list(z.string()).nullable().describe('the worker targets that it may claim from; null: all'),
  created_at: time,
  created_by: z.string(),
  rotated_at: time.nullable(),
  revoked_at: time.nullable(),
  last_used_at: time.nullable(),
})

export type KeyLine = z.output<typeof keyLine>
export type KeyRow = z.input<typeof keyLine>

const auditLine = z.object({
  audit_id: z.number(),
  at: time,
  actor: z.string().describe('the id of a key, `oidc:` and the id of a person at the identity provider, or a process'),
  name: z.string().nullable().describe('of the key or the person'),
  role: z.string().nullable(),
  address: z.string().nullable(),
  method: z.string(),
  path: z.string(),
  status: z.number(),
  code: z.string().nullable(),
})

export type AuditRow = z.input<typeof auditLine>

export const keyRoutes = {
  'GET /me': {
    summary: 'Describe the key or the person of this request',
    responses: {
      200: z.object({
        key_id: z.string().describe('of a person: `oidc:` and the id at the identity provider'),
        name: z.string().nullable(),
        role,
        view: z.string().nullable(),
        project: z.string().nullable(),
        targets: list(z.string()).nullable(),
      }),
    },
  },
  'GET /keys': { summary: 'List keys, without their secrets', responses: { 200: z.object({ keys: list(keyLine) }) } },
  'POST /keys': {
    summary: 'Create a key',
    body: z.strictObject({
      role,
      name: text(120).optional(),
      view: z
        .string()
        .regex(/^[a-z0-9][a-z0-9_.-]{0,63}$/i)
        .optional(),
      project: token.optional(),
      targets: z
        .array(token)
        .min(1)
        .max(targetsMax)
        .optional()
        .describe('for the role `worker`: the worker targets that it may claim from'),
    }),
    responses: { 201: newSecret },
  },
  'POST /keys/:key/rotate': {
    summary: 'Replace the secret of a key',
    params: oneKey,
    body: z.strictObject({ grace_seconds: z.number().min(0).max(604_800).default(0) }),
    responses: { 200: newSecret },
  },
  'DELETE /keys/:key': {
    summary: 'Revoke a key',
    params: oneKey,
    responses: { 200: z.object({ key_id: z.string(), status: z.literal('revoked') }) },
  },
  'GET /audit': {
    summary: 'List audited requests, newest first',
    query: z.object({ actor: text(200).optional(), cursor: numberCursor, limit: limit(500, 100) }),
    responses: { 200: page('audit', auditLine, z.number()) },
  },
  'POST /logins': {
    summary: 'Create a one-time link that signs a browser in',
    responses: { 201: z.object({ path: z.string(), expires_in_seconds: z.number() }) },
  },
  'DELETE /logins': {
    summary: 'Sign this browser out',
    responses: { 200: z.object({ status: z.literal('signed_out') }) },
  },
} as const satisfies Record<string, Route>
