/** The only source of chance. */
export interface Random {
  /** A number in [0, 1). */
  next(): number
  bytes(count: number): Uint8Array
}

export const systemRandom: Random = {
  next: () => Math.random(),
  bytes: (count) => crypto.getRandomValues(new Uint8Array(count)),
}
