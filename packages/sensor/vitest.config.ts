/** Tests of the sensor: pure ones beside the source, in test/ those with real directories, threads and processes. */
import { defineConfig } from 'vitest/config'

const conditions = ['@bellwether/source', 'module', 'node', 'development|production']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    name: 'sensor',
    pool: 'forks',
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    setupFiles: ['../../scripts/property-seed.ts'],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 120_000 } },
  },
})
