/** The only reader of the process environment. Code that needs variables takes an `Environment`, or calls this function. */
export type Environment = Readonly<Record<string, string | undefined>>

export function environment(): Environment {
  return process.env
}
