/**
 * What a command may see of the environment: the few variables that every program needs, the names it was allowed, and what the
 * turn says. Always: nothing else is inherited, and no setting of this product is handed on, because one of them is the database's.
 */
import { type Environment, environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { tokenName } from './token.js'

const usual = 'PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ TMPDIR TERM'.split(' ')
const settingPrefix = 'BELLWETHER'

/** Throws for a name that is none, or that is ours. */
export function allowedName(name: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,254}$/.test(name)) {
    throw new InvalidInput(`${JSON.stringify(name.slice(0, 80))} is not the name of an environment variable`, {
      code: 'invalid_env',
      hint: 'list names only, such as ANTHROPIC_API_KEY; values come from the environment of the worker',
    })
  }
  if (name.toUpperCase().startsWith(settingPrefix)) {
    throw new InvalidInput(`${name} is a setting of the worker and is not handed on`, { code: 'invalid_env' })
  }
  return name
}

export function commandEnvironment(
  names: readonly string[],
  variables: Readonly<Record<string, string>>,
  token: string,
  from: Environment = environment(),
): Record<string, string> {
  const env: Record<string, string> = {}
  for (const name of [...usual, ...names.map(allowedName)]) {
    const value = from[name]
    if (value !== undefined) env[name] = value
  }
  return { ...env, ...variables, [tokenName]: token }
}
