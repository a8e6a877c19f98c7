/** Randomness, for reconnection jitter and request ids. */
export const random = {
  fraction: (): number => Math.random(),
  id: (): string => {
    const bytes = crypto.getRandomValues(new Uint8Array(16))
    return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  },
}
