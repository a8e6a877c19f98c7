/**
 * Builds the environment of a command: the few variables that every program needs, the allowed names, and the turn's own
 * variables. Nothing else is inherited. Bellwether's own settings are never passed, because one of them is the database URL.
 */
import { type Environment, environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { commandPath } from '../search-path.js'
import { tokenName } from './token.js'

const usual = 'PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ TMPDIR TERM'.split(' ')
const settingPrefix = 'BELLWETHER'

/** npm and others ask the network for a newer version and print a notice, once per home folder: in a sandbox that is every time. */
export const noUpdateNotices = { NO_UPDATE_NOTIFIER: '1', npm_config_update_notifier: 'false' }

/** Throws if the name is invalid or one of Bellwether's settings. */
export function allowedName(name: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,254}$/.test(name)) {
    throw new InvalidInput(`Invalid environment variable name ${JSON.stringify(name.slice(0, 80))}`, {
      code: 'invalid_env',
      hint: 'List names only, such as ANTHROPIC_API_KEY. The values come from the worker’s environment.',
    })
  }
  if (name.toUpperCase().startsWith(settingPrefix)) {
    throw new InvalidInput(`${name} is a setting of the worker and is not passed to commands`, { code: 'invalid_env' })
  }
  return name
}

/** The variables that every program needs, and those with these names. */
export function inheritedEnvironment(names: readonly string[], from: Environment = environment()) {
  const env: Record<string, string> = {}
  for (const name of [...usual, ...names]) {
    const value = name === 'PATH' ? commandPath(from) : from[name]
    if (value !== undefined) env[name] = value
  }
  return env
}

export function commandEnvironment(
  names: readonly string[],
  variables: Readonly<Record<string, string>>,
  token: string,
  from?: Environment,
): Record<string, string> {
  return { ...inheritedEnvironment(names.map(allowedName), from), ...variables, [tokenName]: token }
}
