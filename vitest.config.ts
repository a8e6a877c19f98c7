/** All tests of the workspace. Each package keeps its own settings; what the runner shares stands here. */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    projects: [
      'packages/*/vitest.config.ts',
      'packages/bellwether/vitest.shared.config.ts',
      'scripts/vitest.config.ts',
    ],
    // Tests wait a third of their time: three files side by side keep two cores busy; more only makes the one PostgreSQL cluster the bottleneck.
    maxWorkers: 3,
  },
})
