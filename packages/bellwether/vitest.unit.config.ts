/** Tests of pure code beside the source. They need no server, and files share a process, because most of their time would go into imports. */
import { defineConfig } from 'vitest/config'
import { resolution } from './vitest.config.js'

export default defineConfig({
  ...resolution,
  test: {
    name: 'unit',
    pool: 'forks',
    isolate: false,
    testTimeout: 120_000,
    include: ['src/**/*.test.ts'],
    setupFiles: ['../../scripts/property-seed.ts'],
  },
})
