/** A bell that delivers no ring. */
import type { Bell } from '../../src/ports/bell/bell.js'

export const silentBell: Bell = {
  kind: 'notify',
  ring: async () => undefined,
  listen: async () => ({ stop: async () => undefined }),
  close: async () => undefined,
}
