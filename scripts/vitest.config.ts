/** Tests of our own checks: a check that cannot fail protects nothing. */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: { name: 'scripts', pool: 'forks', include: ['*.test.ts'], testTimeout: 600_000, hookTimeout: 600_000 },
})
