/**
 * Tests that need servers, processes or a process of their own, and the simulation. `vitest.shared.config.ts` has the others.
 * Workspace packages run from source, so that no test ever sees a stale build.
 */
import { defineConfig } from 'vitest/config'

// As node resolves, without `module`: what packages keep under it is made for bundlers, and node cannot read some of it.
const conditions = ['@bellwether/source', 'node', 'development|production']

// view/large.test.ts replaces a module, which other files of its process have loaded.
export const sharedFiles = ['src', 'test/{board,http,kernel,view,watchdog}'].map(
  (folder) => `${folder}/**/!(large).test.ts`,
)

export const common = {
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    pool: 'forks' as const,
    setupFiles: ['../../scripts/property-seed.ts', '../../scripts/state-home.ts'],
    globalSetup: ['./test/support/global-setup.ts'],
    // Tests judge what happened, not how fast: a busy machine fails none.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 120_000 } },
  },
}

export default defineConfig({
  ...common,
  test: {
    ...common.test,
    name: 'bellwether',
    include: ['test/**/*.test.ts', 'sim/**/*.test.ts'],
    exclude: sharedFiles,
  },
})
