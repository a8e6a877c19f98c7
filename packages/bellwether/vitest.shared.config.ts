/**
 * Tests of pure code beside the source, and of rooms whose tests start no processes that outlive them. Their files share processes, because
 * most of their time would go into imports. They leave nothing behind in the process: no environment variables, listeners or timers.
 */
import { defineConfig } from 'vitest/config'
import { common, sharedFiles } from './vitest.config.js'

export default defineConfig({
  ...common,
  test: { ...common.test, name: 'shared', isolate: false, include: sharedFiles },
})
