/** Drops undefined keys, for options that must be absent instead of undefined (`exactOptionalPropertyTypes`). */
type Defined<T extends object> = { [K in keyof T]?: Exclude<T[K], undefined> } & {
  [K in keyof T as undefined extends T[K] ? never : K]: T[K]
}

/** The object without its undefined keys. */
export function defined<T extends object>(object: T): Defined<T> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Defined<T>
}
