/** The only reader of the process environment. Code that needs variables takes an `Environment`, or calls this function. */
export type Environment = Readonly<Record<string, string | undefined>>

export function environment(): Environment {
  return process.env
}

/** Adds variables that a parent process sent over a pipe. They do not appear in /proc/PID/environ. */
export function addToEnvironment(values: Environment): void {
  for (const [name, value] of Object.entries(values)) if (value !== undefined) process.env[name] = value
}
