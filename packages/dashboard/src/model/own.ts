/** An own property of a table. External keys may be `constructor` or `__proto__`, which every object inherits. */
export function own<T>(table: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined
}
