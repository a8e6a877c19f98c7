/**
 * Expands `${NAME}` and `${NAME:-default}` in tool declarations, so that secrets come from the environment and not from files. It
 * rejects Bellwether's own settings, because one of them is the database URL, and names without a value.
 */
import { type Environment, environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { allowedName } from '../processes/environment.js'

export function expandEnvironment(text: string, from: Environment = environment()): string {
  return text.replace(/\$\{([^}:]*)(?::-([^}]*))?\}/g, (_match, name: string, fallback: string | undefined) => {
    const value = from[allowedName(name)] ?? fallback
    if (value !== undefined) return value
    throw new InvalidInput(`The environment variable ${name} is not set`, {
      code: 'missing_env',
      hint: `Set ${name} where the worker starts, or write \${${name}:-default}.`,
    })
  })
}
