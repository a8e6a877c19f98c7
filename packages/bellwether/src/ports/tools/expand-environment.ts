/**
 * `${NAME}` and `${NAME:-otherwise}` in declarations of tools: secrets come from the environment, never from files. Always: no
 * setting of this product can be named, because one of them is the database's; a name without a value is a problem, not an empty text.
 */
import { type Environment, environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { allowedName } from '../processes/environment.js'

export function expandEnvironment(text: string, from: Environment = environment()): string {
  return text.replace(/\$\{([^}:]*)(?::-([^}]*))?\}/g, (_whole, name: string, otherwise: string | undefined) => {
    const value = from[allowedName(name)] ?? otherwise
    if (value !== undefined) return value
    throw new InvalidInput(`the environment has no ${name}`, {
      code: 'missing_env',
      hint: `set ${name} where the worker is started, or write \${${name}:-otherwise}`,
    })
  })
}
