/** Tests of our own checks: a check that cannot fail protects nothing. */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: { name: 'scripts', pool: 'forks', include: ['*.test.ts'], testTimeout: 300_000, hookTimeout: 300_000 },
})
