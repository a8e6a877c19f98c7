/** All tests of the workspace. Each package keeps its own settings; what the runner shares stands here. */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    projects: [
      'packages/*/vitest.config.ts',
      'packages/bellwether/vitest.shared.config.ts',
      'scripts/vitest.config.ts',
    ],
    // Two cores have about 0.4 cores of work per file: most of the time, tests wait for processes and timeouts. Six files keep them busy.
    maxWorkers: 6,
  },
})
