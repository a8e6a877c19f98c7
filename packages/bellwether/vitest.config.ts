/**
 * Tests of the product: beside the source for pure code, in test/ for what needs servers, in sim/ for the simulation.
 * Workspace packages run from source, so that no test ever sees a stale build.
 */
import { defineConfig } from 'vitest/config'

// As node resolves, without `module`: what packages keep under it is made for bundlers, and node cannot read some of it.
const conditions = ['@bellwether/source', 'node', 'development|production']

export const resolution = { resolve: { conditions }, ssr: { resolve: { conditions } } }

export default defineConfig({
  ...resolution,
  test: {
    name: 'bellwether',
    pool: 'forks',
    include: ['test/**/*.test.ts', 'sim/**/*.test.ts'],
    setupFiles: ['../../scripts/property-seed.ts'],
    globalSetup: ['./test/support/global-setup.ts'],
    // A timeout detects a hang. On a machine with load 20 a test takes ten times as long as on an idle one.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
})
