/** Starts the shared PostgreSQL and creates the template of its databases before the first test file and ends it after the last. */
import type { TestProject } from 'vitest/node'
import { createKernelTemplate } from './servers/kernel-database.js'
import { startCluster, template } from './postgres.js'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const cluster = await startCluster()
  project.provide('postgresUrl', cluster.url)
  project.provide('clusterSeed', cluster.seed)
  project.provide('emptyKernel', await createKernelTemplate(cluster.url, template))
  return () => cluster.remove()
}
