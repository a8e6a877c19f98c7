/** The message and the code of anything that was thrown. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Anything that was thrown, as an error. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}

/** Where an error was thrown, with its message. */
export function errorStack(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

/** The code of an error of the system, the database or the product; empty if it has none. */
export function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

export function hasCode(error: unknown, ...codes: readonly string[]): error is Error {
  return codes.includes(errorCode(error))
}

/** Calls `act` for one item after the other. An item that fails does not stop the others; all errors are thrown at the end. */
export async function tryEach<T>(items: Iterable<T>, act: (item: T) => Promise<unknown>, what: string): Promise<void> {
  const errors: unknown[] = []
  for (const item of items) {
    try {
      await act(item)
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, `${errors.length} ${what} failed`)
}
