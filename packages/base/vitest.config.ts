/** Tests of the shared code: pure, beside the source. */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    name: 'base',
    pool: 'forks',
    isolate: false,
    include: ['src/**/*.test.ts'],
    setupFiles: ['../../scripts/property-seed.ts'],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 120_000 } },
  },
})
