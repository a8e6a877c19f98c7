/** Tests of the demo's pure code. test/process in the product runs the demo itself. */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    name: 'demo',
    pool: 'forks',
    include: ['src/**/*.test.ts'],
    setupFiles: ['../../scripts/property-seed.ts', '../../scripts/state-home.ts'],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 120_000 } },
  },
})
