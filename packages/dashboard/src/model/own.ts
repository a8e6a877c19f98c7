/** A table's own entry: words from outside may be `constructor` or `__proto__`, which every object has. */
export function own<T>(table: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined
}
