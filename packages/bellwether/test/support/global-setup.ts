/** Starts the shared PostgreSQL before the first test file and ends it after the last. */
import type { TestProject } from 'vitest/node'
import { testCluster } from './postgres.js'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const cluster = await testCluster()
  project.provide('postgresUrl', cluster.url)
  return () => cluster.remove()
}
