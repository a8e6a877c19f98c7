/** The environment that `up` gives its workers: at their start, where other processes can read it, and over a pipe. */
import type { Environment } from '@bellwether/base'

/** Variables that node and its libraries read before our code runs. */
export const startVariables = (env: Environment): string[] =>
  Object.keys(env).filter((name) => /^(?:NODE_|UV_|LD_LIBRARY_PATH$|SSL_CERT_|XDG_)/.test(name))

const serverOnly = /^BELLWETHER__(?:DATABASE__\w*URL$|OIDC__|NOTIFY__|BOARD__VIEW_KEY$|PMO__EVENT_WEBHOOK_URL$)/

/**
 * Settings, but no API key, no secret of the server, and no other way to the database. Keys of models stay: agents name the ones that
 * they get.
 */
export const withoutOwnSecrets = (env: Environment): Environment =>
  Object.fromEntries(
    Object.entries(env).filter(
      ([name]) => !name.startsWith('BELLWETHER_') || (name.startsWith('BELLWETHER__') && !serverOnly.test(name)),
    ),
  )
