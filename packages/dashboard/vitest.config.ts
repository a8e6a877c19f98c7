/** Tests of the dashboard: pure ones beside the source, in test/ those that drive a real Chromium over the built pages. */
import { defineConfig } from 'vitest/config'

const conditions = ['@bellwether/source', 'module', 'node', 'development|production']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    name: 'dashboard',
    pool: 'forks',
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    setupFiles: ['../../scripts/property-seed.ts', '../../scripts/state-home.ts'],
    globalSetup: ['./test/support/build.ts'],
    // A browser on a busy machine.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 120_000 } },
  },
})
